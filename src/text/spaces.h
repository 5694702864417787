#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Vocabularies of SentencePiece write a space as "▁".

namespace helix::text {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // "▁"

// Where the word at the front of text ends: before a "▁" that follows another character.
std::size_t spaced_word_length(std::string_view text);

// The text with spaces in their place.
std::string without_space_marks(std::string_view text);

}  // namespace helix::text
