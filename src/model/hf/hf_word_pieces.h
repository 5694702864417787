#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "spec/json_place.h"

namespace helix::model {

// What a tokenizer.json with a model of type "WordPiece" says beside its tokens: how a text is cut
// into words (BertNormalizer, BertPreTokenizer), what is put around it (TemplateProcessing,
// BertProcessing) and how words are joined again (the decoder WordPiece).
struct HfWordPieces {
    std::string unknown;            // this and the next two are the texts of tokens
    std::string before, after;      // the text; empty: nothing is put there
    std::string within_word{"##"};  // what tokens begin with that are no beginnings of words
    std::int64_t max_characters = 100;
    bool clean_text = false;  // this and the next three: false without a normalizer
    bool handle_chinese_chars = false;
    bool strip_accents = false;
    bool lowercase = false;
    bool cleanup = true;
};

// root is that of the file. Errors name file and key; parts that we do not have are refused.
base::Result<HfWordPieces> read_hf_word_pieces(const spec::JsonPlace& root);

// Writes what is said of words, as our tokenizers take it.
void set_word_rules(const HfWordPieces& pieces, GgufBuilder& metadata);

// A token as GGUF files write it: "▁the" for "the", "s" for "##s". Error invalid: it is one within
// words that would read as the beginning of one.
base::Result<std::string> gguf_word_piece(const std::string& token, const HfWordPieces& pieces);

}  // namespace helix::model
