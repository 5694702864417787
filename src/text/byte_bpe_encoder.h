#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "model/byte_alphabet.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/symbol_merge.h"
#include "text/text_encoder.h"

namespace helix::text {

// The encoder for tokenizer.ggml.model "gpt2": byte-level BPE. Text is cut into words; inside a
// word bytes merge by the file's list of merges, earliest first.
class ByteBpeEncoder final : public TextEncoder, private MergeRules {
  public:
    // vocabulary must outlive the result.
    static base::Result<std::unique_ptr<const TextEncoder>> create(const Vocabulary& vocabulary,
                                                                   PreTokenizer pre_tokenizer);

    void encode(std::string_view text, bool at_start, std::vector<Token>& out) const override;
    std::string decode_token(Token token) const override;

  private:
    ByteBpeEncoder(const Vocabulary& vocabulary, PreTokenizer pre_tokenizer)
        : vocabulary_(vocabulary),
          pre_tokenizer_(std::move(pre_tokenizer)),
          whole_words_first_(
              vocabulary.ignore_merges.value_or(pre_tokenizer_.whole_words_first())) {}
    base::Status build();
    void encode_word(std::string_view word, std::vector<Symbol>& symbols,
                     std::vector<Token>& out) const;
    std::optional<Merge> find(std::string_view text, const Symbol& left,
                              const Symbol& right) const override;

    const Vocabulary& vocabulary_;
    PreTokenizer pre_tokenizer_;
    const bool whole_words_first_;
    model::ByteAlphabet alphabet_;
    std::array<Token, 256> byte_tokens_{};  // -1: the vocabulary cannot write this byte
    MergeTable merges_;
    std::unordered_map<std::string, Token> whole_words_;  // raw bytes; only if they come first
};

}  // namespace helix::text
