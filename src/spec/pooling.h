#pragma once

#include <cstdint>

namespace helix::spec {

// How the final hidden states of a prompt's tokens make its embedding, a vector of length 1. The
// numbers are those of GGUF's "pooling_type" and travel between coordinator and workers.
enum class Pooling : std::uint8_t {
    none = 0,  // no embedding
    mean = 1,  // the mean of all tokens
    cls = 2,   // the first token
    last = 3,  // the last token
};
inline constexpr Pooling kLastPooling = Pooling::last;

// Returns "none", "mean", "cls" or "last".
inline const char* to_string(Pooling pooling) {
    switch (pooling) {
        case Pooling::mean:
            return "mean";
        case Pooling::cls:
            return "cls";
        case Pooling::last:
            return "last";
        case Pooling::none:
            break;
    }
    return "none";
}

}  // namespace helix::spec
