#pragma once

#include <cstdint>
#include <vector>

#include "sim/published/reference_world.h"

namespace helix::sim {

inline base::TimePoint time_point(double seconds) {
    return {base::from_seconds(seconds).ns};
}

// Batches of one node: queues before each layer and the cyclic march over them.
struct ReferenceWorld::Node {
    spec::LayerRange layers;
    std::vector<double> prompt_s;                     // [tokens], one layer
    std::vector<double> decode_s;                     // [sequences]; one alone costs double
    std::vector<std::vector<QueryId>> queues;         // [layer - begin]
    std::vector<std::vector<QueryId>> prompt_queues;  // decode_first: prompts apart
    std::int32_t current = 0;                         // layer - begin
    std::int32_t current_prompt = 0;
    bool runs_prompts = false;          // not fifo: what the batch is made of
    std::vector<QueryId> decodes_due;   // two_passes: taken in, to follow the prompts' pass
    std::int32_t decode_layers = 0;     // since the last layer of prompts
    std::size_t n_waiting = 0;          // in queues
    std::size_t n_waiting_prompts = 0;  // in prompt_queues
    bool busy = false;
    double busy_since_s = 0;
    double busy_until_s = 0;
    std::vector<QueryId> batch;
    std::int32_t batch_decodes = 0;
    std::int32_t batch_prompt_tokens = 0;
    std::int64_t arrived_tokens = 0;  // copied to the device with the next batch of the first layer
    std::int64_t kv_used = 0;
    std::int64_t kv_peak = 0;
    double busy_s = 0;  // in the window

    // Moves on to the next layer with something waiting; stays if there is none.
    static void march(std::int32_t& current, const std::vector<std::vector<QueryId>>& queues) {
        const auto n = static_cast<std::int32_t>(queues.size());
        for (std::int32_t step = 1; step < n; ++step) {
            const std::int32_t next = current + step < n ? current + step : current + step - n;
            if (queues[static_cast<std::size_t>(next)].empty()) continue;
            current = next;
            return;
        }
    }
};

}  // namespace helix::sim
