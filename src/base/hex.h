#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace helix::base {

// Bytes as lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);
std::string to_hex(std::string_view bytes);
// And back, from digits of either case; nothing when these are not digits for so many bytes.
std::optional<std::string> from_hex(std::string_view digits, std::size_t bytes);
// What to_hex(Hash128) wrote; nothing when these are not 32 lower-case digits.
std::optional<Hash128> hash_from_hex(std::string_view digits);

}  // namespace helix::base
