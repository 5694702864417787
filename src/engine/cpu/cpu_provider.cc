#include "engine/cpu/cpu_provider.h"

#include <algorithm>

#include "base/machine.h"
#include "engine/backend/self_profile.h"
#include "engine/host/numa_nodes.h"
#include "engine/ops/kv_type.h"

namespace helix::engine {

base::Result<std::shared_ptr<BackendProvider>> CpuProvider::create(const BackendOptions& options) {
    CpuProviderOptions cpu;
    cpu.ranks = options.ranks;
    if (!options.cpus.empty()) {
        auto cpus = parse_cpu_list(options.cpus);
        if (!cpus.ok()) return base::invalid("--cpus: " + cpus.error().message);
        cpu.cpus = std::move(*cpus);
    }
    return std::shared_ptr<BackendProvider>(std::make_shared<CpuProvider>(std::move(cpu)));
}

double CpuProvider::core_share(std::int32_t threads) const {
    const int pinned = static_cast<int>(options_.cpus.size());
    const int all = base::usable_threads();
    const int used = threads > 0 ? threads : (pinned > 0 ? pinned : all);
    return std::min(1.0, static_cast<double>(used) / static_cast<double>(all));
}

base::Status CpuProvider::check(const model::ModelConfig& config, std::int32_t threads) const {
    return check_ranks(options_.ranks, threads > 0 ? threads : base::usable_threads(), config);
}

base::Result<CpuOptions> CpuProvider::cpu_options(const BackendRequest& request) const {
    CpuOptions options;
    options.threads = request.threads;
    options.cpus = options_.cpus;
    options.ranks = options_.ranks;
    TRY(options.kv_type, ops::parse_kv_type(request.kv_type));
    options.block_size = request.block_size;
    return options;
}

base::Result<std::unique_ptr<Backend>> CpuProvider::make(const BackendRequest& request) {
    TRY(const std::shared_ptr<model::WeightSource> weights, request.weights());
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    TRY(CpuOptions options, cpu_options(request));
    options.memory_bytes = request.memory_bytes;
    options.swap_bytes = request.swap_bytes;
    if (request.filter) options.filter = request.filter(weights);
    return make_cpu_backend(weights, config, options);
}

base::Result<SelfProfile> CpuProvider::profile(const BackendRequest& request) {
    return profile_made_up_layer(
        request,
        [&](std::shared_ptr<model::WeightSource> weights, const model::ModelConfig& config,
            std::int64_t memory_bytes) -> base::Result<std::unique_ptr<Backend>> {
            TRY(CpuOptions options, cpu_options(request));
            options.memory_bytes = memory_bytes;
            return make_cpu_backend(std::move(weights), config, options);
        });
}

}  // namespace helix::engine
