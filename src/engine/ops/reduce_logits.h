#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// Of a row's logits, greatest first.
constexpr int kMaxTopLogits = 128;
// Tokens are numbered in floats.
constexpr std::int64_t kMaxReducedVocab = 1 << 24;

// A row, counted from the first that is reduced, and a token.
struct LogitAt {
    std::int32_t row = 0;
    std::int32_t token = 0;
};

// What drawing a token takes most often, in place of a whole row of logits. Of each row the n_top
// greatest logits and their tokens, greatest first and of equal ones the lowest token first; the
// sum of all tokens' weights exp(logit - greatest), as docs/numerics.md defines it; and the logits
// of tokens that are named. Where a logit is a NaN or infinite, the first such token is said, and
// all else of the row but named logits means nothing.
//
// out: for each row ReducedRowAt's floats, then the logit of each of `named`.
struct ReduceLogits {
    const Buffer& logits;  // [first_row + rows, vocab]
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t vocab = 0;  // at most kMaxReducedVocab
    int n_top = 0;           // from 1 to kMaxTopLogits, at most vocab
    bool sum = false;        // false: the sum is 0
    std::span<const LogitAt> named;
    Buffer& out;
};

// Where a row's floats are in it.
struct ReducedRowAt {
    static constexpr std::int64_t kBroken = 0;  // the first token whose logit is not finite, or -1
    static constexpr std::int64_t kSum = 1;
    static constexpr std::int64_t kLogits = 2;  // [n_top], then [n_top] tokens
    static constexpr std::int64_t floats(std::int64_t n_top) { return kLogits + 2 * n_top; }
};

struct TopLogit {
    float logit = 0;
    std::int32_t token = 0;
};

// The order in which logits are the greatest: of equal ones the lowest token.
constexpr bool is_greater(const TopLogit& a, const TopLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

inline std::int64_t reduced_floats(std::int64_t rows, std::int64_t n_top, std::int64_t named) {
    return rows * ReducedRowAt::floats(n_top) + named;
}

}  // namespace helix::engine::ops
