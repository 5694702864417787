#include "core/coordinator/kv_demand.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

std::int64_t KvDemand::blocks_for(std::int64_t tokens) const {
    return (tokens + config_.block_size - 1) / config_.block_size;
}

std::int64_t KvDemand::blocks_needed(const RequestState& state, std::int64_t output) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    if (!state.group) return blocks_for(prompt + output);
    const std::int64_t shared = prompt / config_.block_size;
    return shared + state.group->sequences(state.request) * (blocks_for(prompt + output) - shared);
}

std::int64_t KvDemand::expected_blocks(const RequestState& state, std::int32_t cached) const {
    const auto so_far = static_cast<std::int64_t>(state.group ? state.group->longest_output()
                                                              : state.output.size());
    const auto more = static_cast<std::int64_t>(mean_output_) + 1;
    const std::int64_t output = std::min<std::int64_t>(state.max_output, so_far + more);
    // Cached blocks are whole, and they are shared.
    return blocks_needed(state, output) - cached / config_.block_size;
}

// Returns the blocks that the request has in pages now, per layer. Beams share more blocks and have
// fewer than this.
std::int64_t KvDemand::blocks_held(const RequestState& state) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    if (!state.group) {
        return blocks_for(prompt + static_cast<std::int64_t>(state.output.size()));
    }
    const std::int64_t shared = prompt / config_.block_size;
    std::int64_t blocks = shared;
    for (const GroupMember& member : state.group->members) {
        const std::int64_t tokens = prompt + static_cast<std::int64_t>(member.output.size());
        blocks += blocks_for(tokens) - shared;
    }
    return blocks;
}

std::int64_t KvDemand::blocks_to_end(const RequestState& state) const {
    if (state.running) return blocks_needed(state, state.max_output);
    if (state.request.max_tokens > 0) return blocks_needed(state, state.request.max_tokens);
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    return blocks_needed(state, static_cast<std::int64_t>(longest) + 1);
}

std::int64_t KvDemand::pages(const BlockDemand& demand, LayerRange layers,
                             std::int64_t rows) const {
    const LayerRange own = config_.kv_layers(layers);
    const std::int64_t all = demand.blocks * own.size();
    if (demand.keeps_all || !config_.window.any()) return all;
    const std::int64_t most =
        config_.window.most_blocks(demand.blocks * config_.block_size, rows, config_.block_size);
    return all - (demand.blocks - most) * config_.window.count(own);
}

std::int64_t KvDemand::mean_blocks(const BlockDemand& demand) const {
    if (demand.keeps_all || !config_.window.any()) return demand.blocks;
    const LayerRange all{0, config_.n_layers};
    const std::int64_t n = kv_layers(all);
    return (pages(demand, all) + n - 1) / n;
}

std::int64_t KvDemand::given_back(const RequestState& state) const {
    if (state.group || !config_.window.any()) return 0;
    // The row of the last token is on its way, or is the next to be sent.
    const std::int32_t next = length(state) - (state.rows_going > 0 ? 0 : 1);
    return config_.window.needless_blocks(next, config_.block_size);
}

std::int64_t KvDemand::tokens_asked(const RequestState& state) const {
    const auto mean = std::max<std::int64_t>(1, static_cast<std::int64_t>(mean_output_));
    const std::int64_t most = state.request.max_tokens > 0 ? state.request.max_tokens : mean;
    const std::int64_t sequences = state.group ? state.group->sequences(state.request) : 1;
    return static_cast<std::int64_t>(state.request.prompt.size()) +
           sequences * std::min(most, mean);
}

}  // namespace helix::core
