#pragma once

#include <optional>

#include "text/vocabulary.h"

namespace helix::text {

// The tokens by which a model that was trained to fill in is asked for what belongs between two
// texts: prefix, the text before, suffix, the text after, middle; then it writes.
struct InfillTokens {
    Token prefix = 0;
    Token suffix = 0;
    Token middle = 0;
};

// Those that the file names, and else tokens with well-known texts, as llama.cpp finds them.
// Nothing unless all three are there.
std::optional<InfillTokens> find_infill_tokens(const Vocabulary& vocabulary);

}  // namespace helix::text
