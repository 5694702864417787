#pragma once

#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/request_state.h"

namespace helix::core {

// How many KV blocks (pages of one layer) a request has, is expected to have at its end, and may
// come to have. Expected lengths follow the mean of the outputs that have ended.
class KvDemand {
  public:
    explicit KvDemand(const CoordinatorConfig& config)
        : config_(config), mean_output_(config.expected_output_tokens) {}

    // Tokens as blocks.
    std::int64_t blocks_for(std::int64_t tokens) const;
    // Per layer, with so many output tokens; a group's full prompt blocks count once.
    std::int64_t blocks_needed(const RequestState& state, std::int64_t output) const;
    // Per layer, besides blocks that it shares with the prefix cache.
    std::int64_t expected_blocks(const RequestState& state, std::int32_t cached) const;
    std::int64_t blocks_held(const RequestState& state) const;
    std::int64_t blocks_to_end(const RequestState& state) const;  // that it may come to

    // What a request asks for, as far as it is known before: its prompt, and what each choice is
    // expected to put out.
    std::int64_t tokens_asked(const RequestState& state) const;
    // A slow mean over what really comes out replaces the configured guess.
    void note_output(std::size_t tokens) {
        mean_output_ += (static_cast<double>(tokens) - mean_output_) / 32;
    }

  private:
    const CoordinatorConfig& config_;
    double mean_output_ = 0;  // running mean of finished outputs, for expected lengths
};

}  // namespace helix::core
