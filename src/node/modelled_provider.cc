#include "node/modelled_provider.h"

#include "engine/modelled/modelled_backend.h"

namespace helix::node {

base::Result<std::unique_ptr<engine::Backend>> ModelledProvider::make(
    const BackendRequest& request) {
    engine::ModelledOptions options;
    options.node = node_;
    options.cost = cost_;
    options.model = request.model.model;
    options.hidden_size = request.model.hidden_size;
    options.vocab_size = request.model.vocab_size;
    options.block_size = request.model.block_size;
    options.memory_bytes = request.memory_bytes;
    options.swap_bytes = request.swap_bytes;
    options.time_scale = time_scale_;
    TRY(auto backend, engine::ModelledBackend::create(std::move(options)));
    return std::unique_ptr<engine::Backend>(std::move(backend));
}

base::Result<SelfProfile> ModelledProvider::profile(const BackendRequest& /*request*/) {
    constexpr std::int32_t kPrefill = 256;
    SelfProfile profile;
    profile.decode_s_per_layer = cost_->layer_s(node_, 1, 0) * time_scale_;
    profile.decode_batch_s_per_layer = cost_->layer_s(node_, 8, 0) * time_scale_;
    profile.prefill_s_per_token_layer = cost_->layer_s(node_, 0, kPrefill) * time_scale_ / kPrefill;
    return profile;
}

}  // namespace helix::node
