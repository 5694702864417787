#pragma once

#include <cstdint>

#include "spec/cluster_spec.h"

namespace helix::spec {

// How long a machine computes. Implementations: measured tables, roofline, a node's self-profile.
class CostModel {
  public:
    virtual ~CostModel() = default;
    // Seconds for ONE layer of a batch: decode_seqs sequences with one token each and
    // prefill_tokens tokens of prompts. Both zero = 0.
    virtual double layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                           std::int32_t prefill_tokens) const = 0;
};

}  // namespace helix::spec
