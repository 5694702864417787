#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace helix::text {

struct DetokenizerOptions {
    // Leaves out control and unknown tokens. If off, they are printed as the vocabulary writes
    // them.
    bool skip_special_tokens = true;
    // The tokens are a text from its beginning, so the space that encode() put before it is taken
    // away again. Off for the continuation of a prompt, where a first " there" is a word of its
    // own.
    bool starts_text = false;
    // Special tokens that are printed although others are left out, in rising order; null = none.
    std::shared_ptr<const std::vector<Token>> shown = nullptr;
};

// Turns the tokens of a text into that text, one by one.
class IncrementalDetokenizer {
  public:
    virtual ~IncrementalDetokenizer() = default;
    // The text that is decided once token is known, perhaps none.
    virtual std::string push(Token token) = 0;
    // Ends the text and returns what waited.
    virtual std::string flush() = 0;
};

// With the tokens of a vocabulary. What it returns, joined, is the same however the tokens
// arrive, and every piece is valid UTF-8. Bytes of an unfinished character wait for the next token;
// bytes that cannot become one are replaced by U+FFFD at once.
class Detokenizer final : public IncrementalDetokenizer {
  public:
    explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer,
                         DetokenizerOptions options = {});

    std::string push(Token token) override;
    // Ends the text: what waits becomes one U+FFFD. The object then starts afresh, in the middle of
    // a text.
    std::string flush() override;

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
    DetokenizerOptions options_;
    bool strip_space_;     // from the next token that is printed
    std::string waiting_;  // at most 3 bytes
};

// Decodes all tokens at once, by default as a whole text (starts_text).
std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens,
                   DetokenizerOptions options = {.starts_text = true});

}  // namespace helix::text
