#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/weight_source.h"

namespace helix::engine {

// The head of a cross-encoder, which makes a score of the first token's state x of a query and a
// document that were read as one text: sigmoid(w . tanh(D x + d) + b), from 0 to 1. It is computed
// on the host and in double, so that it has the same bits on whatever device, and with whomever the
// text shared its batch.
//
// Devlin and others: BERT: Pre-training of Deep Bidirectional Transformers, 2018 (D is its pooler).
class PairHead {
  public:
    // Of a model with rank_head.of_pairs. Errors name the tensor.
    static base::Result<PairHead> load(model::WeightSource& source, std::int64_t hidden);
    // Bytes that it holds.
    static std::int64_t bytes(std::int64_t hidden);

    // state: [hidden]. Error internal: a number is broken.
    base::Result<float> score(std::span<const double> state) const;

  private:
    std::vector<float> dense_;       // D [hidden, hidden]
    std::vector<float> dense_bias_;  // d [hidden]
    std::vector<float> weights_;     // w [hidden]
    float bias_ = 0;                 // b
};

}  // namespace helix::engine
