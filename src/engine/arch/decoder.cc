#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engine/arch/architecture.h"
#include "engine/arch/blocks.h"

// A layer of attention and of a feed-forward, experts or both, also in one model. What tells the
// families apart (biases, norms and their places, the pairs of rope, windows) is in the config.

namespace helix::engine {
namespace {

struct Layer {
    AttentionWeights attention;
    std::variant<FeedForwardWeights, ExpertWeights, MixedWeights> feed_forward;
    std::optional<LayerInputWeights> input;
    float scale = 1.0F;  // of the residuals at the end
};

class Decoder final : public Architecture {
  public:
    explicit Decoder(model::ModelConfig config) : config_(std::move(config)) {}

    base::Result<std::int64_t> layer_bytes(const WeightLoader& loader,
                                           std::int32_t layer) const override {
        TRY(const std::int64_t attention, AttentionWeights::bytes(loader, config_, layer));
        TRY(const std::int64_t rest, feed_forward_bytes(loader, layer));
        if (config_.layer_input == 0) return attention + rest;
        TRY(const std::int64_t input, LayerInputWeights::bytes(loader, layer));
        return attention + rest + input;
    }

    base::Status load_layer(WeightLoader& loader, std::int32_t l) override {
        Layer layer;
        TRY(layer.attention, AttentionWeights::load(loader, config_, l));
        if (is_mixed(l)) {
            TRY(layer.feed_forward, MixedWeights::load(loader, config_, l));
        } else if (config_.has_experts(l)) {
            TRY(layer.feed_forward, ExpertWeights::load(loader, config_, l));
        } else {
            TRY(layer.feed_forward, FeedForwardWeights::load(loader, config_, l));
        }
        if (config_.layer_input > 0) {
            TRY(layer.input, LayerInputWeights::load(loader, config_, l));
        }
        if (config_.layer_scales) {
            TRY(layer.scale, loader.number(layer_tensor(l, "layer_output_scale.weight")));
        }
        layers_[l] = std::move(layer);
        return base::Ok{};
    }

    void drop_layer(std::int32_t layer) override { layers_.erase(layer); }
    bool has_layer(std::int32_t layer) const override { return layers_.contains(layer); }

    base::Status run_layer(Device& device, std::int32_t l, const LayerRows& rows) override {
        const auto found = layers_.find(l);
        CHECK(found != layers_.end());
        const Layer& layer = found->second;
        TRY_VOID(attention_.run(device, config_, layer.attention, l, rows, shared_));
        TRY_VOID(feed(device, layer, rows));
        if (layer.input) TRY_VOID(input_.run(device, config_, *layer.input, rows, shared_));
        if (layer.scale != 1.0F)
            device.scale_rows({rows.hidden, rows.rows, config_.hidden, layer.scale});
        return base::Ok{};
    }

  private:
    bool is_mixed(std::int32_t layer) const {
        return config_.dense_beside_experts && config_.has_experts(layer);
    }
    base::Result<std::int64_t> feed_forward_bytes(const WeightLoader& loader,
                                                  std::int32_t layer) const {
        if (is_mixed(layer)) return MixedWeights::bytes(loader, config_, layer);
        return config_.has_experts(layer) ? ExpertWeights::bytes(loader, config_, layer)
                                          : FeedForwardWeights::bytes(loader, config_, layer);
    }
    base::Status feed(Device& device, const Layer& layer, const LayerRows& rows) {
        if (const auto* dense = std::get_if<FeedForwardWeights>(&layer.feed_forward))
            return feed_forward_.run(device, config_, *dense, rows, shared_);
        if (const auto* mixed = std::get_if<MixedWeights>(&layer.feed_forward))
            return mixed_.run(device, config_, *mixed, rows);
        const auto& experts = std::get<ExpertWeights>(layer.feed_forward);
        return experts_.run(device, config_, experts, rows, shared_);
    }

    model::ModelConfig config_;
    std::map<std::int32_t, Layer> layers_;
    BlockRows shared_;
    AttentionRunner attention_;
    FeedForwardRunner feed_forward_;
    ExpertRunner experts_;
    MixedRunner mixed_;
    LayerInputRunner input_;
};

}  // namespace

std::unique_ptr<Architecture> make_decoder(const model::ModelConfig& config) {
    return std::make_unique<Decoder>(config);
}

}  // namespace helix::engine
