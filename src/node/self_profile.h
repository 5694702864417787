#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/backend/backend.h"
#include "node/backend_provider.h"

namespace helix::node {

// What measure_layer() asks of the backend it measures.
constexpr std::int32_t kProfileSequences = 8;
constexpr std::int32_t kProfilePrompt = 64;  // tokens before the one decoded
// Activations to measure with: random, for rows that are all the same would all go to the same
// experts.
std::vector<float> profile_rows(std::int64_t rows, std::int64_t hidden);
// Pages that hold the measured sequences, for one layer.
std::int32_t profile_pages(std::int32_t block_size);

// Times one loaded layer: a decode of one sequence, of eight, and a prompt. About 0.3 s, less than
// a second unless a single batch takes longer.
base::Result<SelfProfile> measure_layer(engine::Backend& backend, std::int32_t layer,
                                        std::int32_t block_size);

}  // namespace helix::node
