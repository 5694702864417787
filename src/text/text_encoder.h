#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace helix::text {

// One way to turn ordinary text (no special tokens in it) into tokens; one per
// tokenizer.ggml.model.
class TextEncoder {
  public:
    virtual ~TextEncoder() = default;
    // Appends the tokens of text. at_start says that nothing or a special token comes before.
    virtual void encode(std::string_view text, bool at_start, std::vector<Token>& out) const = 0;
    // The bytes that the text of a normal or byte token stands for.
    virtual std::string decode_token(Token token) const = 0;
};

}  // namespace helix::text
