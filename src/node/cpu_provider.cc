#include "node/cpu_provider.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "base/random.h"
#include "engine/ops/kv_type.h"
#include "model/model_config.h"
#include "node/grammar_filter.h"
#include "node/self_profile.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;

// Tensors of the right size whose every byte is the same: a harmless number in each format (f32
// 0.011, f16 1.06, bf16 0.011, small quants), so that no arithmetic meets NaNs or denormals.
class MadeUpWeights final : public model::WeightSource {
  public:
    explicit MadeUpWeights(std::shared_ptr<model::WeightSource> shape) : shape_(std::move(shape)) {}

    const model::GgufFile& file() const override { return shape_->file(); }
    Result<std::span<const std::byte>> tensor(std::string_view name) override {
        const model::TensorInfo* info = file().find_tensor(name);
        if (info == nullptr) {
            return Error{Errc::not_found, fmt::format("the model has no tensor {}", name)};
        }
        std::vector<std::byte>& bytes = made_[info->name];
        bytes.assign(info->bytes, std::byte{0x3c});
        if (info->name.ends_with("ffn_gate_inp.weight")) make_up_router(*info, bytes);
        return std::span<const std::byte>(bytes);
    }

  private:
    // Random rows: rows that are all the same would send every token to the same experts.
    static void make_up_router(const model::TensorInfo& info, std::vector<std::byte>& bytes) {
        base::Random random(1);
        std::vector<float> values(static_cast<std::size_t>(info.row_length() * info.rows()));
        for (float& value : values) value = static_cast<float>(random.uniform()) - 0.5F;
        model::quantize_row(info.type, values, bytes.data());
    }

    std::shared_ptr<model::WeightSource> shape_;
    std::map<std::string, std::vector<std::byte>> made_;
};

}  // namespace

Result<engine::CpuOptions> CpuProvider::engine_options(const BackendRequest& request) const {
    engine::CpuOptions options;
    options.threads = request.threads;
    options.cpus = options_.cpus;
    options.ranks = options_.ranks;
    TRY(options.kv_type, engine::ops::parse_kv_type(request.model.kv_type));
    options.block_size = request.model.block_size;
    return options;
}

Result<std::unique_ptr<engine::Backend>> CpuProvider::make(const BackendRequest& request) {
    TRY(const std::shared_ptr<model::WeightSource> weights, request.weights());
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    TRY(engine::CpuOptions options, engine_options(request));
    options.memory_bytes = request.memory_bytes;
    options.swap_bytes = request.swap_bytes;
    options.filter = std::make_shared<GrammarFilter>(weights);
    return engine::make_cpu_backend(weights, config, options);
}

Result<SelfProfile> CpuProvider::profile(const BackendRequest& request) {
    TRY(const std::shared_ptr<model::WeightSource> weights, request.weights());
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    const spec::ModelSpec& shape = request.model.model;
    const std::int32_t block_size = request.model.block_size;
    // A middle layer: no embedding, no head.
    const std::int32_t layer = shape.n_layers > 2 ? 1 : 0;
    TRY(engine::CpuOptions options, engine_options(request));
    const std::int64_t page_bytes = shape.kv_bytes_per_token_layer * block_size;
    // Packed weights may be larger than stored ones.
    options.memory_bytes = 8 * (shape.layer_bytes + (layer == 0 ? shape.embedding_bytes : 0)) +
                           4 * profile_pages(block_size) * page_bytes + (std::int64_t{16} << 20);
    TRY(const std::unique_ptr<engine::Backend> backend,
        engine::make_cpu_backend(std::make_shared<MadeUpWeights>(weights), config, options));
    TRY(const std::int64_t pages, backend->load({layer, layer + 1}));
    if (pages < profile_pages(block_size)) {
        return Error{Errc::unavailable, "no memory to measure one layer"};
    }
    return measure_layer(*backend, layer, block_size);
}

}  // namespace helix::node
