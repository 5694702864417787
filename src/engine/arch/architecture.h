#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "engine/cpu/attention_cpu.h"
#include "engine/device/weight_loader.h"
#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels.h"
#include "engine/ops/kv_layout.h"
#include "model/model_config.h"

namespace helix::engine {

// What every layer of a batch runs on.
struct Device {
    const ops::Kernels& kernels;
    ThreadPool& pool;
    ops::KvLayout kv;  // of as many ranks as the pool has
};

// Consecutive rows of one sequence that run this layer.
struct LayerSequence {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int32_t first_position = 0;
    std::byte* const* pages = nullptr;  // of this layer, by block: rank 0's
};

struct LayerRows {
    std::span<float> hidden;      // [rows, hidden]: in and out
    std::span<const float> rope;  // [rows, rope_dim], see ops/rope.h
    std::span<const LayerSequence> sequences;
    std::int64_t rows = 0;
};

// The body of a decoder's layers: their weights and how rows go through one. One file for each kind
// of model; embedding, final norm and head are the backend's.
class Architecture {
  public:
    virtual ~Architecture() = default;
    // Bytes that load_layer() will hold.
    virtual base::Result<std::int64_t> layer_bytes(const WeightLoader& loader,
                                                   std::int32_t layer) const = 0;
    virtual base::Status load_layer(WeightLoader& loader, std::int32_t layer) = 0;
    virtual void drop_layer(std::int32_t layer) = 0;
    virtual bool has_layer(std::int32_t layer) const = 0;
    // Stores the rows' keys and values in the pages and adds the layer to hidden.
    virtual void run_layer(const Device& device, std::int32_t layer, const LayerRows& rows) = 0;
};

// llama, qwen2, qwen3 and their mixtures of experts: what differs between them is in the config.
std::unique_ptr<Architecture> make_decoder(const model::ModelConfig& config);

// By config.architecture; invalid names those we have.
base::Result<std::unique_ptr<Architecture>> make_architecture(const model::ModelConfig& config);

}  // namespace helix::engine
