#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

// What all pictures are written with: text, numbers, round figures on axes, colours.

namespace helix::view {

inline constexpr const char* kNoBreak = "\u00a0";  // between a number and its unit

// Distinct for people who do not see all colours (after Okabe and Ito).
inline constexpr std::array<const char*, 8> kPalette = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                        "#56b4e9", "#d55e00", "#8c6bb1", "#7f7f7f"};

// text as content or as a quoted attribute of HTML and SVG; control characters, which XML does not
// allow, become spaces.
std::string markup(std::string_view text);

// "1,234", "252.1", "3.07": for people, at least three significant digits.
std::string format_count(double value);
std::string format_percent(double share);  // "0.4 %", "97 %", with kNoBreak
std::string format_seconds(double seconds);

// Round numbers inside [low, high], about n of them.
std::vector<double> round_ticks(double low, double high, int n);

}  // namespace helix::view
