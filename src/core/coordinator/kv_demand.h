#pragma once

#include <algorithm>
#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/request_state.h"

namespace helix::core {

// KvDemand says how many KV blocks (pages of one layer) a request has, is expected to have at its
// end, and may come to have. Expected lengths follow the mean of the outputs that have ended.
class KvDemand {
  public:
    explicit KvDemand(const CoordinatorConfig& config)
        : config_(config), mean_output_(config.expected_output_tokens) {}

    // Returns how many blocks hold this many tokens.
    std::int64_t blocks_for(std::int64_t tokens) const;
    // Returns the blocks per layer with this many output tokens. Those of a group's prompt that are
    // full count once.
    std::int64_t blocks_needed(const RequestState& state, std::int64_t output) const;
    // Returns the blocks per layer that it is expected to have at its end, without those that it
    // shares with the prefix cache.
    std::int64_t expected_blocks(const RequestState& state, std::int32_t cached) const;
    std::int64_t blocks_held(const RequestState& state) const;
    // Returns the most blocks per layer that it may come to have.
    std::int64_t blocks_to_end(const RequestState& state) const;

    // Says of what kind so many blocks of this request are. Members of a group are forked from each
    // other at earlier tokens, so their pages are all kept.
    static BlockDemand of(const RequestState& state, std::int64_t blocks) {
        return {blocks, state.group != nullptr};
    }
    // Returns the pages that a request with so many blocks has in these layers: in those with a
    // window no more than the window's.
    std::int64_t pages(const BlockDemand& demand, LayerRange layers) const {
        return pages(demand, layers, 1);
    }
    // Returns the most pages that it may come to need at once there, with what is drafted ahead.
    std::int64_t most_pages(const BlockDemand& demand, LayerRange layers) const {
        return pages(demand, layers, 1 + std::max(0, config_.speculation.draft_rows));
    }
    // Returns how many of these layers have pages.
    std::int32_t kv_layers(LayerRange layers) const { return config_.kv_layers(layers).size(); }
    // Returns the pages in the mean of all layers that have some.
    std::int64_t mean_blocks(const BlockDemand& demand) const;
    // Returns the tokens that fill the pages of the request's blocks, in that mean.
    std::int64_t tokens_held(const RequestState& state) const {
        return mean_blocks(of(state, blocks_held(state))) * config_.block_size;
    }
    // Returns how many of its blocks, the first, no row that is still to be sent will attend to in
    // layers with a window.
    std::int64_t given_back(const RequestState& state) const;

    // Returns what a request asks for, as far as that is known before it runs: the tokens of its
    // prompt, and those that each choice is expected to put out.
    std::int64_t tokens_asked(const RequestState& state) const;
    // A slow mean over what really comes out replaces the configured length.
    void note_output(std::size_t tokens) {
        mean_output_ += (static_cast<double>(tokens) - mean_output_) / 32;
    }

    double mean_output() const { return mean_output_; }

  private:
    std::int64_t pages(const BlockDemand& demand, LayerRange layers, std::int64_t rows) const;

    const CoordinatorConfig& config_;
    double mean_output_ = 0;  // the running mean of outputs that have ended
};

}  // namespace helix::core
