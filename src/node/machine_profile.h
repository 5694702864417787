#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/backend/backend.h"
#include "spec/layer_range.h"

namespace helix::node {

// What is to be measured on a backend that holds exactly `layers`.
struct ProfileRequest {
    spec::LayerRange layers;
    std::int32_t block_size = 16;
    std::int64_t pages = 0;            // that the backend has
    std::int32_t context = 512;        // tokens before the one decoded; also the longest prompt
    std::int32_t most_prompt = 2048;   // tokens of the largest batch of prompts
    std::int32_t most_sequences = 64;  // sequences of the largest batch of decodes
    base::Duration budget = base::from_seconds(30);
    std::function<void(double share)> on_progress;  // 0 to 1; may be empty
};

// Seconds of one layer for one batch: the median of some runs.
struct ProfilePoint {
    std::int32_t tokens = 0;
    double seconds = 0;
    double spread = 0;  // half the distance of the quartiles, as a share of the median
    std::int32_t runs = 0;
};

struct MachineProfile {
    std::vector<ProfilePoint> prompt;   // by prompt tokens of the batch
    std::vector<ProfilePoint> decode;   // by sequences that decode one token each
    std::vector<ProfilePoint> context;  // the same number of decodes, by tokens before them
    std::int32_t context_sequences = 0;
};

// The pages that the largest batches need.
std::int64_t pages_to_profile(const ProfileRequest& request);

// Measures in rounds over all batch sizes, so that a disturbance of the machine meets all alike.
// Sizes that are too slow for the budget are left out, the largest first. Error unavailable: not
// even the smallest ones fit.
base::Result<MachineProfile> profile_machine(engine::Backend& backend,
                                             const ProfileRequest& request);

}  // namespace helix::node
