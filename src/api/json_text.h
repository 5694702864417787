#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// JSON written by hand, for what is written once a token.

namespace helix::api {

// text in quotes. Bytes that are no UTF-8 become U+FFFD, one for each maximal wrong piece.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::int64_t value);
// Shortest text that reads back as this float; JSON knows no infinity, so those become +-9999.
void append_json_number(std::string& out, float value);

}  // namespace helix::api
