#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Writes JSON by hand, for what is written once a token.

namespace helix::api {

// Appends text in quotes. Bytes that are no UTF-8 become U+FFFD, one for each maximal wrong piece.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::int64_t value);
// Appends the shortest text that reads back as this float. JSON has no infinities, so those become
// +-9999.
void append_json_number(std::string& out, float value);

}  // namespace helix::api
