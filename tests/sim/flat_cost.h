#pragma once

#include <cstdint>

#include "spec/cost_model.h"

namespace helix::sim {

// Every layer of every machine takes the same time, and a share of it more for each token.
class FlatCost final : public spec::CostModel {
  public:
    explicit FlatCost(double layer_s = 0.0005, double per_decode = 0.05,
                      double per_prompt_token = 0.05)
        : layer_s_(layer_s), per_decode_(per_decode), per_prompt_token_(per_prompt_token) {}
    double layer_s(const spec::NodeSpec&, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return layer_s_ * (1 + per_decode_ * decode_seqs + per_prompt_token_ * prefill_tokens);
    }

  private:
    double layer_s_;
    double per_decode_;
    double per_prompt_token_;
};

}  // namespace helix::sim
