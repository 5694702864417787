#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_encoder.h"

namespace helix::text {

// The encoder for tokenizer.ggml.model "bert": WordPiece, of BERT and what descends from it (bge,
// E5, MiniLM, nomic). A text becomes words (word_normaliser.h); of each the longest beginning that
// is a token is taken, then the longest of what is left, and so on. A word whose rest begins with
// no token, or that is longer than the rules allow, is one unknown token.
//
// The vocabulary writes tokens that begin a word with "▁" before them and those within a word as
// they are, as llama.cpp's converter does; BERT's own files write the latter as "##s". A token "▁"
// alone is that character within a word.
//
// Wu et al.: Google's Neural Machine Translation System, 2016, section 4.1; the greedy cut is that
// of Devlin et al.: BERT, 2018.
class WordPieceEncoder final : public TextEncoder {
  public:
    // vocabulary must have all defaults filled in and outlive the result. Errors name the key.
    static base::Result<std::unique_ptr<const TextEncoder>> create(const Vocabulary& vocabulary);

    // Words never go on in the next text, so at_start changes nothing.
    void encode(std::string_view text, bool at_start, std::vector<Token>& out) const override;
    // What begins a word has a space before it, except ". ? ! ," where the rules say so.
    std::string decode_token(Token token) const override;

  private:
    struct Piece {
        std::string_view text;  // a view into the vocabulary, without "▁"
        Token token = 0;
    };
    struct Match {
        std::size_t length = 0;  // in bytes; 0: none
        Token token = 0;
    };

    explicit WordPieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
    base::Status build();
    void encode_word(std::string_view word, std::size_t n_characters,
                     std::vector<Token>& out) const;
    // The longest of these that text begins with.
    static Match longest(const std::vector<Piece>& pieces, std::string_view text);

    const Vocabulary& vocabulary_;
    // By their bytes, none empty, none twice.
    std::vector<Piece> beginnings_;  // of words
    std::vector<Piece> rests_;
};

}  // namespace helix::text
