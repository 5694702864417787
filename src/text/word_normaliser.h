#pragma once

#include <string>
#include <string_view>

#include "text/vocabulary.h"

// How BERT's models cut a text into words before these become tokens (WordPieceEncoder).
//
// Devlin et al.: BERT, 2018; the rules are those of the BertNormalizer and the BertPreTokenizer of
// a tokenizer.json.

namespace helix::text {

// The characters of text after the rules: control and format characters and U+FFFD left out and
// white space made spaces (clean), Chinese characters between spaces (chinese_apart), decomposed
// and without the nonspacing marks (strip_accents), in lower case (lowercase); in this order. Bytes
// that are not UTF-8 count as U+FFFD.
std::u32string normalise_words(std::string_view text, const WordRules& rules);

// Unicode's White_Space, which lies between words.
bool is_between_words(char32_t character);
// A word of its own: Unicode's punctuation, and whatever of ASCII is no letter, digit, space or
// control character.
bool is_punctuation_word(char32_t character);

}  // namespace helix::text
