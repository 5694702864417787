#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/backend/backend.h"
#include "engine/backend/provider.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

// What measure_layer() asks of the backend it measures.
constexpr std::int32_t kProfileSequences = 8;
constexpr std::int32_t kProfilePrompt = 64;  // tokens before the one decoded
// The frame of activations that a measured chunk names, where it does not begin with layer 0.
constexpr std::uint64_t kProfileBuffer = 1;
// Activations to measure with: random, for rows that are all the same would all go to the same
// experts.
std::vector<float> profile_rows(std::int64_t rows, std::int64_t hidden);
// Pages that hold the measured sequences, for one layer.
std::int32_t profile_pages(std::int32_t block_size);

// Times one loaded layer: a decode of one sequence, of eight, and a prompt. About 0.3 s, less than
// a second unless a single batch takes longer.
base::Result<SelfProfile> measure_layer(Backend& backend, std::int32_t layer,
                                        std::int32_t block_size);

// Makes a backend that has so many bytes for one layer of this model.
using MakeLayerBackend = std::function<base::Result<std::unique_ptr<Backend>>(
    std::shared_ptr<model::WeightSource> weights, const model::ModelConfig& config,
    std::int64_t memory_bytes)>;

// Measures a middle layer of the model's shape (no embedding, no head), filled with made-up
// weights: nothing but the header of the model's weights is read. unavailable: no memory for one
// layer.
base::Result<SelfProfile> profile_made_up_layer(const BackendRequest& request,
                                                const MakeLayerBackend& make);

}  // namespace helix::engine
