#pragma once

#include <cstdint>

namespace helix::spec {

// How the final hidden states of a prompt's tokens make its embedding, a vector of length 1, or the
// score of a document. The numbers are those of GGUF's "pooling_type" and travel between
// coordinator and workers.
enum class Pooling : std::uint8_t {
    none = 0,  // no embedding
    mean = 1,  // the mean of all tokens
    cls = 2,   // the first token
    last = 3,  // the last token
    // No embedding but one value from 0 to 1, by the model's rank head at the last token, or at a
    // cross-encoder's first.
    rank = 4,
};
inline constexpr Pooling kLastPooling = Pooling::rank;

// Whether the last token's state is all that is needed, and not those of the tokens before it. (A
// cross-encoder needs the first's, which it has with the last's: its texts are never cut.)
constexpr bool needs_last_alone(Pooling pooling) {
    return pooling == Pooling::last || pooling == Pooling::rank;
}

// Returns "none", "mean", "cls", "last" or "rank".
inline const char* to_string(Pooling pooling) {
    switch (pooling) {
        case Pooling::mean:
            return "mean";
        case Pooling::cls:
            return "cls";
        case Pooling::last:
            return "last";
        case Pooling::rank:
            return "rank";
        case Pooling::none:
            break;
    }
    return "none";
}

}  // namespace helix::spec
