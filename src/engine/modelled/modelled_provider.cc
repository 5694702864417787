#include "engine/modelled/modelled_provider.h"

#include "engine/modelled/modelled_backend.h"
#include "spec/cluster_spec.h"
#include "spec/profile_tables.h"

namespace helix::engine {

base::Result<std::shared_ptr<BackendProvider>> ModelledProvider::create(
    const BackendOptions& options) {
    if (options.ranks != 1) return base::invalid("--tp: --backend modelled has no ranks");
    if (options.profiles.empty() || options.profile.empty() || options.type.empty())
        return base::invalid("--backend modelled needs --profiles DIR, --profile MODEL and --type");
    if (!(options.time_scale > 0)) return base::invalid("--time-scale: expected a number above 0");
    TRY(auto tables, spec::ProfileTables::read(options.profiles, options.profile));
    spec::ClusterSpec self;
    self.nodes.emplace_back();
    self.nodes[0].name = options.type;
    self.nodes[0].type = options.type;
    TRY_VOID(tables.check(self));
    return std::shared_ptr<BackendProvider>(std::make_shared<ModelledProvider>(
        self.nodes[0], std::make_shared<const spec::ProfileTables>(std::move(tables)),
        options.time_scale));
}

base::Result<std::unique_ptr<Backend>> ModelledProvider::make(const BackendRequest& request) {
    ModelledOptions options;
    options.node = node_;
    options.cost = cost_;
    options.model = request.model;
    options.hidden_size = request.hidden_size;
    options.vocab_size = request.vocab_size;
    options.block_size = request.block_size;
    options.memory_bytes = request.memory_bytes;
    options.swap_bytes = request.swap_bytes;
    options.time_scale = time_scale_;
    TRY(auto backend, ModelledBackend::create(std::move(options)));
    return std::unique_ptr<Backend>(std::move(backend));
}

base::Result<SelfProfile> ModelledProvider::profile(const BackendRequest& /*request*/) {
    constexpr std::int32_t kPrefill = 256;
    SelfProfile profile;
    profile.decode_s_per_layer = cost_->layer_s(node_, 1, 0) * time_scale_;
    profile.decode_batch_s_per_layer = cost_->layer_s(node_, 8, 0) * time_scale_;
    profile.prefill_s_per_token_layer = cost_->layer_s(node_, 0, kPrefill) * time_scale_ / kPrefill;
    return profile;
}

}  // namespace helix::engine
