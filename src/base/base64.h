#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace helix::base {

// Bytes in base64 with padding (RFC 4648, section 4).
std::string to_base64(std::string_view bytes);
// And back; nothing when text is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace helix::base
