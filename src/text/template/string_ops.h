#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/budget.h"

// What string methods and string filters share. Parts are views into the given text.

namespace helix::text::jinja {

// With limit < 0 there is no limit.
std::vector<std::string_view> split_on(std::string_view text, std::string_view separator,
                                       std::int64_t limit, bool from_right);
std::vector<std::string_view> split_on_space(std::string_view text, std::int64_t limit,
                                             bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// With count < 0 every one is replaced.
base::Result<std::string> replace_text(std::string_view text, std::string_view from,
                                       std::string_view to, std::int64_t count, Budget& budget);
std::int64_t count_parts(std::string_view text, std::string_view part);

// how is ljust, rjust or center.
base::Result<std::string> pad(std::string_view text, std::int64_t width, std::string_view fill,
                              std::string_view how, Budget& budget);

// test is isalpha, isdigit, isupper, ... of Python.
bool has_characters(std::string_view text, std::string_view test);

}  // namespace helix::text::jinja
