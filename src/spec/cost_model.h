#pragma once

#include <cstdint>

#include "spec/cluster_spec.h"

namespace helix::spec {

// How long a machine computes. It is implemented by measured tables, by the roofline, and by a
// node's own measurements.
class CostModel {
  public:
    virtual ~CostModel() = default;
    // Seconds for one layer of a batch of decode_seqs sequences with one token each and
    // prefill_tokens tokens of prompts. 0 if both are 0.
    virtual double layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                           std::int32_t prefill_tokens) const = 0;
};

}  // namespace helix::spec
