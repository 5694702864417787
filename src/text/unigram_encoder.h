#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/char_map.h"
#include "text/text_encoder.h"

namespace helix::text {

// The encoder for tokenizer.ggml.model "t5": SentencePiece's unigram model, of XLM-RoBERTa (bge-m3,
// multilingual E5) and T5. Characters are first written as the file's map says, spaces as "▁", of
// several in a row one and none at the end. Of all ways to cut the text into tokens it is the one
// whose scores have the greatest sum; a character that is no token costs 10 more than the worst
// token, and several such in a row are one unknown token.
//
// Kudo: Subword Regularization, 2018, section 3.2; the best way is found by Viterbi's algorithm.
class UnigramEncoder final : public TextEncoder {
  public:
    // vocabulary must have all defaults filled in and outlive the result. Errors name the key.
    static base::Result<std::unique_ptr<const TextEncoder>> create(const Vocabulary& vocabulary);

    // Bytes that are no UTF-8 are U+FFFD.
    void encode(std::string_view text, bool at_start, std::vector<Token>& out) const override;
    std::string decode_token(Token token) const override;

  private:
    struct Piece {
        std::string_view text;  // a view into the vocabulary
        Token token = 0;
        double score = 0;
    };
    // The best way to where the place that it belongs to begins.
    struct Way {
        double score = 0;
        std::size_t from = 0;
        Token token = 0;
    };

    explicit UnigramEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
    base::Status build();
    std::string normalised(std::string_view raw, bool at_start) const;
    // One word, up to the next "▁"; ways is for its use.
    void encode_word(std::string_view word, std::vector<Way>& ways, std::vector<Token>& out) const;
    void extend(std::string_view word, std::size_t begin, std::vector<Way>& ways) const;

    const Vocabulary& vocabulary_;
    CharMap map_;
    std::vector<Piece> pieces_;             // by their bytes
    std::array<std::size_t, 257> first_{};  // of pieces_, by their first byte
    bool words_are_apart_ = true;           // no token has a "▁" behind another character
    double unknown_score_ = 0;
};

}  // namespace helix::text
