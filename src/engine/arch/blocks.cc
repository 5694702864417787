#include "engine/arch/blocks.h"

#include <fmt/format.h>

namespace helix::engine {

std::string layer_tensor(std::int32_t layer, std::string_view what) {
    return fmt::format("blk.{}.{}", layer, what);
}

base::Result<std::int64_t> tensors_bytes(const WeightLoader& loader, std::int32_t layer,
                                         const std::vector<std::string>& names) {
    std::int64_t sum = 0;
    for (const std::string& name : names) {
        TRY(const std::int64_t bytes, loader.bytes(layer_tensor(layer, name)));
        sum += bytes;
    }
    return sum;
}

void norm_rows(Device& device, const model::ModelConfig& config, const Buffer& x,
               const Buffer& weight, Buffer& y, std::int64_t rows) {
    const std::int64_t width = weight.size();
    if (config.norm == model::NormKind::layer) {
        device.layer_norm({x, weight, y, rows, width, config.norm_epsilon});
    } else {
        device.rms_norm({x, weight, y, rows, width, config.norm_epsilon});
    }
}

void gate_rows(Device& device, const model::ModelConfig& config, Buffer& gate, const Buffer& up,
               std::int64_t rows, std::int64_t width) {
    switch (config.activation) {
        case model::Activation::silu:
            return device.swiglu({gate, up, rows, width});
        case model::Activation::gelu:
            return device.geglu({gate, up, rows, width});
        case model::Activation::clamped_silu:
            return device.clamped_swiglu({gate, up, rows, width});
        case model::Activation::squared_relu:
            return device.reglu({gate, up, rows, width});
        case model::Activation::exact_geglu:
            return device.geglu({gate, up, rows, width, true});
        case model::Activation::exact_gelu:
            return device.gelu({gate, rows, width});
    }
}

std::vector<std::string> SumNorm::tensors(const model::ModelConfig& config, const char* name) {
    if (!config.sum_norms) return {};
    return {fmt::format("{}.weight", name), fmt::format("{}.bias", name)};
}

base::Result<SumNorm> SumNorm::load(WeightLoader& loader, const model::ModelConfig& config,
                                    std::int32_t layer, const char* name) {
    SumNorm norm;
    const std::vector<std::string> names = tensors(config, name);
    if (names.empty()) return norm;
    TRY(norm.weight, loader.vector(layer_tensor(layer, names[0]), config.hidden));
    TRY(norm.bias, loader.vector(layer_tensor(layer, names[1]), config.hidden));
    return norm;
}

void SumNorm::run(Device& device, const model::ModelConfig& config, Buffer& x,
                  std::int64_t rows) const {
    if (weight == nullptr) return;
    norm_rows(device, config, x, *weight, x, rows);
    device.add_bias({x, *bias, rows, config.hidden});
}

base::Status NormedRows::run(Device& device, const model::ModelConfig& config,
                             const LayerRows& rows, const Buffer* weight, const Buffer* bias) {
    current_ = &rows.hidden;
    if (weight == nullptr) return base::Ok{};
    TRY_VOID(make_room(device, values_, rows.rows * weight->size()));
    norm_rows(device, config, rows.hidden, *weight, *values_, rows.rows);
    if (bias != nullptr) device.add_bias({*values_, *bias, rows.rows, bias->size()});
    current_ = values_.get();
    return base::Ok{};
}

base::Status AddedRows::run(Device& device, const model::ModelConfig& config, const Matrix& matrix,
                            const Buffer& x, const Buffer* norm, const LayerRows& rows,
                            const Buffer* bias, const SumNorm* of_sum) {
    const bool sums = of_sum != nullptr && of_sum->weight != nullptr;
    if (norm == nullptr && bias == nullptr && !sums && config.residual_scale == 1.0F) {
        const ops::Projection sum[] = {{matrix, rows.hidden, true}};
        device.matmul({x, rows.rows, sum});
        return base::Ok{};
    }
    const std::int64_t hidden = config.hidden;
    TRY_VOID(make_room(device, values_, rows.rows * hidden));
    const ops::Projection product[] = {{matrix, *values_}};
    device.matmul({x, rows.rows, product});
    if (bias != nullptr) device.add_bias({*values_, *bias, rows.rows, hidden});
    if (norm != nullptr) norm_rows(device, config, *values_, *norm, *values_, rows.rows);
    if (sums) {
        device.add_rows({rows.hidden, *values_, rows.rows, hidden});
        of_sum->run(device, config, *values_, rows.rows);
    }
    device.add_rows({*values_, rows.hidden, rows.rows, hidden, config.residual_scale});
    return base::Ok{};
}

}  // namespace helix::engine
