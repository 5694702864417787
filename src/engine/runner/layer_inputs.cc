#include "engine/runner/layer_inputs.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/index.h"
#include "model/tensor_type.h"

namespace helix::engine {
namespace {

using base::size_of;

std::vector<std::int64_t> widths_of(const model::ModelConfig& config) {
    return std::vector<std::int64_t>(size_of(config.n_layers), config.layer_input);
}

}  // namespace

base::Result<std::int64_t> LayerInputs::bytes(const WeightLoader& loader,
                                              const model::ModelConfig& config) {
    TRY(const std::int64_t table, loader.bytes(model::kLayerInputTable));
    TRY(const std::int64_t projections,
        loader.split_bytes(model::kLayerInputProjection, widths_of(config)));
    TRY(const std::int64_t norm, loader.bytes(model::kLayerInputNorm));
    return table + projections + norm;
}

base::Status LayerInputs::load(model::WeightSource& source, WeightLoader& loader,
                               const model::ModelConfig& config) {
    hidden_ = config.hidden;
    width_ = config.layer_input;
    // A row divided by a number has the norm of the row with that number's square times epsilon.
    epsilon_ = config.norm_epsilon * static_cast<float>(config.hidden);
    TRY(projections_,
        loader.split_matrices(model::kLayerInputProjection, 1, widths_of(config), config.hidden));
    TRY(norm_, loader.vector(model::kLayerInputNorm, width_));
    const model::TensorInfo* info = source.file().find_tensor(model::kLayerInputTable);
    CHECK(info != nullptr && info->rows() == config.vocab &&
          info->row_length() == width_ * config.n_layers);
    TRY(table_, source.tensor(model::kLayerInputTable));
    CHECK(table_.size() == info->bytes);
    type_ = info->type;
    token_bytes_ = std::ssize(table_) / config.vocab;
    return base::Ok{};
}

void LayerInputs::drop(model::WeightSource& source) {
    if (!table_.empty()) source.release(model::kLayerInputTable);
    table_ = {};
    projections_.clear();
    norm_ = nullptr;
}

base::Status LayerInputs::set_rows(Device& device, std::span<const spec::Token> tokens,
                                   std::span<const float> embedded, spec::LayerRange layers) {
    CHECK(loaded() && std::ssize(embedded) == std::ssize(tokens) * hidden_);
    rows_ = std::ssize(tokens);
    layers_ = layers;
    if (rows_ == 0) return base::Ok{};
    const std::int64_t floats = layers.size() * rows_ * width_;
    const std::int64_t bytes = token_bytes_ / std::ssize(projections_);  // of a layer's part
    const float scale = std::sqrt(static_cast<float>(width_));
    host_.resize(size_of(floats));
    for (std::int64_t i = 0; i < layers.size() * rows_; ++i) {
        const std::int64_t layer = layers.begin + i / rows_;
        const std::int64_t token = tokens[size_of(i % rows_)];
        const auto part =
            table_.subspan(size_of(token * token_bytes_ + layer * bytes), size_of(bytes));
        const auto to = std::span(host_).subspan(size_of(i * width_), size_of(width_));
        model::dequantize_row(type_, part, to.data());
        for (float& x : to) x *= scale;
    }
    TRY_VOID(make_room(device, embedded_, rows_ * hidden_));
    TRY_VOID(device.write(*embedded_, 0, embedded));
    TRY_VOID(make_room(device, looked_up_, floats));
    return device.write(*looked_up_, 0, host_);
}

base::Result<const Buffer*> LayerInputs::make(Device& device, std::int32_t layer) {
    CHECK(layers_.contains(layer));
    TRY_VOID(make_room(device, of_layer_, rows_ * width_));
    TRY_VOID(make_room(device, inputs_, rows_ * width_));
    const ops::Projection projected[] = {{*projections_[size_of(layer)], *inputs_}};
    device.matmul({*embedded_, rows_, projected});
    device.rms_norm({*inputs_, *norm_, *inputs_, rows_, width_, epsilon_});
    const ops::RowRange range[] = {{(layer - layers_.begin) * rows_, 0, rows_}};
    device.copy_rows({*looked_up_, *of_layer_, width_, range});
    device.add_rows({*of_layer_, *inputs_, rows_, width_});
    device.scale_rows({*inputs_, rows_, width_, std::numbers::sqrt2_v<float> / 2});
    return static_cast<const Buffer*>(inputs_.get());
}

}  // namespace helix::engine
