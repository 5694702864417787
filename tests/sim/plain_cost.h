#pragma once

#include <cstdint>

#include "spec/cost_model.h"

namespace helix::sim {

// 1 ms a layer for each 100 prompt tokens, 2 ms and a little for decodes.
class PlainCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return prefill_tokens * 1e-5 + (decode_seqs > 0 ? 0.002 + decode_seqs * 1e-5 : 0);
    }
};

}  // namespace helix::sim
