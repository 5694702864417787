#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "text/merge_table.h"
#include "text/symbol_merge.h"
#include "text/text_encoder.h"

namespace helix::text {

// The encoder for tokenizer.ggml.model "llama": SentencePiece BPE. Spaces are written "▁";
// neighbouring pieces merge when the joined text is a token, highest score first; a character that
// is no token becomes <0xXX> bytes. And for "gemma4": pieces merge by the file's list of merges,
// and line ends are apart from other text; as many as are one token together are that token.
class SpmEncoder final : public TextEncoder, private MergeRules {
  public:
    // vocabulary must have all defaults filled in and outlive the result.
    static base::Result<std::unique_ptr<const TextEncoder>> create(const Vocabulary& vocabulary);

    void encode(std::string_view text, bool at_start, std::vector<Token>& out) const override;
    std::string decode_token(Token token) const override;

  private:
    explicit SpmEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
    base::Status build();
    // The length of the next word of a text that merges stay within.
    std::size_t next_word(std::string_view text) const;
    void encode_word(std::string_view word, std::vector<Symbol>& symbols,
                     std::vector<Token>& out) const;
    std::optional<Merge> find(std::string_view text, const Symbol& left,
                              const Symbol& right) const override;

    const Vocabulary& vocabulary_;
    const bool by_merges_ = vocabulary_.model == kGemma4Tokenizer;
    MergeTable merges_;                                     // empty where scores decide
    std::unordered_map<std::string_view, Token> token_of_;  // views into vocabulary_
    // No token has a "▁" after another character, so merges stay between one run of "▁" and the
    // next.
    bool words_are_apart_ = true;
    std::size_t longest_token_ = 0;         // bytes
    std::array<Token, 256> byte_tokens_{};  // the unknown token where there is no <0xXX>
};

}  // namespace helix::text
