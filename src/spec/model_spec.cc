#include "spec/model_spec.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace helix::spec {
namespace {

std::int64_t layers_bytes(const ModelSpec& model, LayerRange layers) {
    if (layers.empty()) return 0;
    if (model.bytes_of_layer.empty()) return layers.size() * model.layer_bytes;
    const auto begin = model.bytes_of_layer.begin();
    return std::accumulate(begin + layers.begin, begin + layers.end, std::int64_t{0});
}

double mean_layer_bytes(const ModelSpec& model) {
    if (model.bytes_of_layer.empty()) return static_cast<double>(model.layer_bytes);
    return static_cast<double>(layers_bytes(model, {0, model.n_layers})) / model.n_layers;
}

}  // namespace

void set_layer_sizes(ModelSpec& model, std::vector<std::int64_t> bytes_of_layer) {
    CHECK(!bytes_of_layer.empty());
    CHECK(bytes_of_layer.size() == static_cast<std::size_t>(model.n_layers));
    model.layer_bytes = *std::max_element(bytes_of_layer.begin(), bytes_of_layer.end());
    const bool differ = std::adjacent_find(bytes_of_layer.begin(), bytes_of_layer.end(),
                                           std::not_equal_to<>()) != bytes_of_layer.end();
    model.bytes_of_layer = differ ? std::move(bytes_of_layer) : std::vector<std::int64_t>();
}

std::int64_t stored_bytes(const ModelSpec& model, LayerRange layers) {
    if (layers.empty()) return 0;
    return model.common_bytes + layers_bytes(model, layers) +
           (layers.begin == 0 ? model.embedding_bytes : 0) +
           (layers.end == model.n_layers ? model.head_bytes : 0);
}

std::int64_t most_stored_bytes(const ModelSpec& model, std::int32_t layers, bool first, bool last) {
    CHECK(0 <= layers && layers <= model.n_layers);
    if (model.bytes_of_layer.empty()) return layers * model.layer_bytes;
    if (first && !last) return layers_bytes(model, {0, layers});
    if (last && !first) return layers_bytes(model, {model.n_layers - layers, model.n_layers});
    std::int64_t bytes = layers_bytes(model, {0, layers});
    std::int64_t most = bytes;
    for (auto end = static_cast<std::size_t>(layers); end < model.bytes_of_layer.size(); ++end) {
        bytes += model.bytes_of_layer[end] -
                 model.bytes_of_layer[end - static_cast<std::size_t>(layers)];
        most = std::max(most, bytes);
    }
    return most;
}

std::int32_t most_kv_layers(const ModelSpec& model, std::int32_t layers, bool last) {
    CHECK(0 <= layers && layers <= model.n_layers);
    if (!last && layers <= model.n_layers - model.joined_layers) return layers;
    const LayerRange held{model.n_layers - layers, model.n_layers};
    return std::max(std::min(layers, 1), kv_layers(model, held).size());
}

std::int32_t typical_layer(const ModelSpec& model) {
    const std::int32_t last = model.n_layers > 2 ? model.n_layers - 1 : model.n_layers;
    const std::int32_t end = std::clamp(model.n_layers - model.joined_layers, 1, last);
    const std::int32_t begin = model.n_layers > 2 && end > 1 ? 1 : 0;
    const double mean = mean_layer_bytes(model);
    std::int32_t best = begin;
    const auto bytes = [&](std::int32_t layer) {
        return static_cast<double>(layers_bytes(model, {layer, layer + 1}));
    };
    for (std::int32_t layer = begin; layer < end; ++layer) {
        const double off = std::abs(bytes(layer) - mean);
        const double best_off = std::abs(bytes(best) - mean);
        if (off < best_off || (off == best_off && bytes(layer) > bytes(best))) best = layer;
    }
    return best;
}

double layer_bytes_read(const ModelSpec& model, double tokens) {
    const double all = mean_layer_bytes(model);
    if (model.n_experts == 0) return all;
    const double unused = 1.0 - static_cast<double>(model.n_experts_used) / model.n_experts;
    return all - static_cast<double>(model.layer_expert_bytes) * std::pow(unused, tokens);
}

double kept_tokens(const ModelSpec& model, double tokens) {
    if (!model.window.any() || model.n_layers <= 0) return tokens;
    const LayerRange own = kv_layers(model, {0, model.n_layers});
    const double share =
        static_cast<double>(model.window.count(own)) / static_cast<double>(own.size());
    return (1 - share) * tokens + share * std::min<double>(tokens, model.window.positions);
}

}  // namespace helix::spec
