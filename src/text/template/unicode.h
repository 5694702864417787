#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Text as Python sees it: UTF-8 in memory, code points in every index. A byte that is not part of a
// valid character counts as one code point of its own.

namespace helix::text::jinja {

std::size_t code_point_bytes(std::string_view text, std::size_t at);  // 1..4
std::int32_t code_point_at(std::string_view text, std::size_t at, std::size_t& bytes);
std::size_t count_code_points(std::string_view text);
// Byte offset of the index-th code point; text.size() past the end.
std::size_t byte_offset(std::string_view text, std::size_t index);
void append_utf8(std::string& out, std::int32_t code_point);
bool is_valid_utf8(std::string_view text);

bool is_space(std::int32_t code_point);       // str.isspace
bool is_line_break(std::int32_t code_point);  // where str.splitlines cuts
bool is_printable(std::int32_t code_point);   // repr shows it as it is
bool is_upper(std::int32_t code_point);
bool is_lower(std::int32_t code_point);
bool is_cased(std::int32_t code_point);
bool is_alpha(std::int32_t code_point);
bool is_decimal(std::int32_t code_point);
bool is_numeric(std::int32_t code_point);
bool is_word(std::int32_t code_point);  // \w of a regular expression

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(
    std::string_view text);  // first character to title case, the others to lower
std::string title_case(std::string_view text);  // str.title: each run of letters

enum class Side { left, right, both };
// Without `characters`, white space is stripped.
std::string_view strip(std::string_view text, Side side, const std::string_view* characters);

}  // namespace helix::text::jinja
