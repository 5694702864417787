#include <map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engine/arch/architecture.h"
#include "engine/arch/blocks.h"

// A layer of attention and of a feed-forward or experts, also in one model. What tells the families
// apart (biases, norms and their places, the pairs of rope, windows) is in the config.

namespace helix::engine {
namespace {

struct Layer {
    AttentionWeights attention;
    std::variant<FeedForwardWeights, ExpertWeights> feed_forward;
};

class Decoder final : public Architecture {
  public:
    explicit Decoder(model::ModelConfig config) : config_(std::move(config)) {}

    base::Result<std::int64_t> layer_bytes(const WeightLoader& loader,
                                           std::int32_t layer) const override {
        TRY(const std::int64_t attention, AttentionWeights::bytes(loader, config_, layer));
        TRY(const std::int64_t rest, config_.has_experts(layer)
                                         ? ExpertWeights::bytes(loader, config_, layer)
                                         : FeedForwardWeights::bytes(loader, config_, layer));
        return attention + rest;
    }

    base::Status load_layer(WeightLoader& loader, std::int32_t l) override {
        Layer layer;
        TRY(layer.attention, AttentionWeights::load(loader, config_, l));
        if (config_.has_experts(l)) {
            TRY(layer.feed_forward, ExpertWeights::load(loader, config_, l));
        } else {
            TRY(layer.feed_forward, FeedForwardWeights::load(loader, config_, l));
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
        if (const auto* dense = std::get_if<FeedForwardWeights>(&layer.feed_forward))
            return feed_forward_.run(device, config_, *dense, rows, shared_);
        const auto& experts = std::get<ExpertWeights>(layer.feed_forward);
        return experts_.run(device, config_, experts, rows, shared_);
    }

  private:
    model::ModelConfig config_;
    std::map<std::int32_t, Layer> layers_;
    BlockRows shared_;
    AttentionRunner attention_;
    FeedForwardRunner feed_forward_;
    ExpertRunner experts_;
};

}  // namespace

std::unique_ptr<Architecture> make_decoder(const model::ModelConfig& config) {
    return std::make_unique<Decoder>(config);
}

}  // namespace helix::engine
