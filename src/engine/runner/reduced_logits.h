#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/protocol/batch_plan.h"
#include "engine/ops/reduce_logits.h"
#include "spec/sampling_params.h"

// What a device has reduced rows of logits to, on this machine; and what of it draws need.

namespace helix::engine {

struct NamedLogit {
    spec::Token token = 0;
    float logit = 0;
};

// Of one row.
struct ReducedRow {
    std::int64_t vocab = 0;
    bool broken = false;            // a logit is not finite: nothing else holds
    float sum = 0;                  // of all weights exp(logit - greatest), where it was asked for
    std::span<const float> logits;  // the greatest, in order
    std::span<const float> tokens;  // theirs
    std::span<const NamedLogit> named;  // those of tokens that were asked for, by token

    spec::Token token(std::size_t i) const { return static_cast<spec::Token>(tokens[i]); }
    // Says whether the greatest are all.
    bool complete() const { return static_cast<std::int64_t>(logits.size()) == vocab; }
    // Nothing: it is neither among the greatest nor named.
    std::optional<float> logit_of(spec::Token token) const;
};

// What is asked of a device for a row.
struct ReductionNeeds {
    int n_top = 0;
    bool sum = false;
    std::vector<spec::Token> named;  // ascending
};

// Of a chunk that is sampled, for each of its rows. Nothing: its draws need whole rows from the
// outset.
std::optional<ReductionNeeds> reduction_needs(const core::BatchChunk& chunk, std::int64_t vocab);

// Of a chunk whose tokens are scored; likewise.
std::optional<ReductionNeeds> scoring_needs(const core::BatchChunk& chunk, std::int64_t vocab);

// Rows as they are asked for and as they come back.
class ReducedLogits {
  public:
    // Begins anew.
    void clear();
    // One more row, of which `named` are named, ascending.
    void add_row(std::span<const spec::Token> named);

    std::int64_t rows() const { return std::ssize(first_named_) - 1; }
    // For ops::ReduceLogits.
    std::span<const ops::LogitAt> named() const { return asked_; }
    // Keeps what the operator has written.
    void set(std::span<const float> reduced, std::int64_t vocab, int n_top);
    ReducedRow row(std::int64_t i) const;

  private:
    std::vector<ops::LogitAt> asked_;
    std::vector<std::int64_t> first_named_ = {0};  // [rows + 1]
    std::vector<float> reduced_;
    std::vector<NamedLogit> named_;
    std::int64_t vocab_ = 0;
    int n_top_ = 0;
};

}  // namespace helix::engine
