#pragma once

#include "base/result.h"
#include "spec/cost_model.h"

namespace helix::spec {

// The cost model of machines that measured themselves (NodeSpec::decode_s_per_layer and its
// neighbours). Decodes follow a straight line through the measured batches of 1 and 8 sequences,
// continued beyond. Prompts take the measured seconds per token, but never less than one decode. A
// batch of both costs the sum.
class MeasuredNode final : public CostModel {
  public:
    double layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override;
};

// Checks that every node has the three measurements; the error names the first that has not.
base::Status check_measured(const ClusterSpec& cluster);

}  // namespace helix::spec
