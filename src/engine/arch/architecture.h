#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/device/weight_loader.h"
#include "model/model_config.h"

namespace helix::engine {

// The rows of a batch that run one layer. Rows of a sequence lie together, in ascending order.
struct LayerRows {
    Buffer& hidden;  // [rows, hidden]: in and out
    // [rows, rope_dim], the layer's, see ops/rope.h; of one with a temperature [rows, head_dim].
    const Buffer& angles;
    KvArena& kv;
    // All the rows, in order, with the pages of the layer whose keys and values the layer attends
    // to.
    std::span<const ops::SequenceRows> sequences;
    std::int64_t rows = 0;
    const Buffer* layer_input = nullptr;  // [rows, layer_input], where the model has such
};

// The body of a decoder's layers: their weights and how rows go through one. One file for each kind
// of model; embedding, final norm and head are the runner's.
class Architecture {
  public:
    virtual ~Architecture() = default;
    // Bytes that load_layer() will hold.
    virtual base::Result<std::int64_t> layer_bytes(const WeightLoader& loader,
                                                   std::int32_t layer) const = 0;
    virtual base::Status load_layer(WeightLoader& loader, std::int32_t layer) = 0;
    virtual void drop_layer(std::int32_t layer) = 0;
    virtual bool has_layer(std::int32_t layer) const = 0;
    // Stores the rows' keys and values in the pages, where the layer has its own, and adds the
    // layer to hidden. On the device
    // that the weights were loaded to. unavailable: it has no memory for the work space.
    virtual base::Status run_layer(Device& device, std::int32_t layer, const LayerRows& rows) = 0;
};

// Every decoder that is made of the parts in blocks.h: what differs between them is in the config.
std::unique_ptr<Architecture> make_decoder(const model::ModelConfig& config);

// By config.architecture.
base::Result<std::unique_ptr<Architecture>> make_architecture(const model::ModelConfig& config);

}  // namespace helix::engine
