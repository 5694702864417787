#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernels.h"
#include "engine/ops/reduce_logits.h"

namespace helix::engine::ops {

// Reduces rows of logits on this machine, as ops/reduce_logits.h says of all devices, with as many
// of the greatest as one wants. One thread.
class RowReducer {
  public:
    explicit RowReducer(const Kernels& kernels) : kernels_(&kernels) {}

    struct Row {
        std::int32_t broken = -1;  // the first token whose logit is not finite: nothing else holds
        float sum = 0;
        std::span<const TopLogit> top;  // until the next call
    };
    // n_top: at least 1; as many as there are, where that is more.
    Row reduce(std::span<const float> logits, std::int64_t n_top, bool sum);

  private:
    void find_top(std::span<const float> logits, std::size_t n_top);
    float sum_weights(std::span<const float> logits, float top);

    const Kernels* kernels_;
    // Work space.
    std::vector<float> tops_, sums_;
    std::vector<std::int32_t> segments_;
    std::vector<TopLogit> top_;
};

}  // namespace helix::engine::ops
