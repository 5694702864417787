#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/special_matcher.h"
#include "text/text_encoder.h"
#include "text/vocabulary.h"

namespace helix::text {

struct EncodeOptions {
    // Puts BOS before and EOS after the text if the model's file says so.
    bool add_special = true;
    // Reads "<|eot_id|>" in the text as that token. Only for text that we wrote, a rendered chat
    // template: a user who could write control tokens could end the turn and speak as the system.
    // So what comes from users is encoded apart, with this off; it then comes out as ordinary
    // characters.
    bool parse_special = false;
};

// Turns text into tokens and tokens into bytes, as the model was trained. Immutable, for any
// thread.
class Tokenizer {
  public:
    // Errors name the metadata key that is wrong or missing.
    static base::Result<std::shared_ptr<const Tokenizer>> create(Vocabulary vocabulary);
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    // The tokens of text, in O(n log n). Never fails. Bytes that are not UTF-8 are encoded byte by
    // byte and come back from token_bytes() as they were; where there are no tokens for bytes
    // ("t5", "bert") they are U+FFFD, which cleaned words ("bert") are without.
    std::vector<Token> encode(std::string_view text, EncodeOptions options = {}) const;

    // The bytes that a token stands for, possibly a part of a character, or a special token's own
    // text. Empty for an unused token and for an id outside the vocabulary. Valid while this lives.
    std::string_view token_bytes(Token token) const;
    // Whether it is a control or unknown token, which is not text that the model says.
    bool is_special(Token token) const;
    // Whether the model ends its turn with this token: eos, eot, eom and their well-known names.
    bool is_end_of_generation(Token token) const;

    Token vocab_size() const { return static_cast<Token>(vocabulary_.tokens.size()); }
    bool contains(Token token) const { return token >= 0 && token < vocab_size(); }
    std::optional<Token> bos() const { return vocabulary_.bos; }
    std::optional<Token> eos() const { return vocabulary_.eos; }
    bool adds_bos() const { return *vocabulary_.add_bos; }
    bool adds_eos() const { return *vocabulary_.add_eos; }
    // Whether encode() begins a text with a space that is not in it, or token_bytes() a word
    // ("bert"); decoding a whole text takes it away again.
    bool adds_space_prefix() const { return *vocabulary_.add_space_prefix; }
    // All defaults are filled in: kinds, add_bos, add_eos and add_space_prefix are present.
    const Vocabulary& vocabulary() const { return vocabulary_; }

  private:
    explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
    base::Status build();
    void mark_end_of_generation();
    void mark_harmony_ends();
    void build_special_matchers();

    Vocabulary vocabulary_;
    std::unique_ptr<const TextEncoder> encoder_;  // refers to vocabulary_
    std::vector<std::string> bytes_;              // per token
    std::vector<bool> ends_generation_;           // per token
    SpecialMatcher user_defined_;
    SpecialMatcher all_special_;
};

}  // namespace helix::text
