#include "model/model_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "model/arch/architecture.h"
#include "model/arch/decoder.h"
#include "model/arch/rank_head.h"
#include "model/header_config.h"
#include "model/weight_source.h"
#include "spec/model_shape.h"

namespace helix::model {
namespace {

constexpr const DecoderTraits* kArchitectures[] = {
    &kLlama,      &kQwen2,      &kQwen2Moe,     &kQwen3,         &kQwen3Moe,   &kSmolLm3,
    &kOlmo2,      &kGlm4,       &kPhi3,         &kGranite,       &kGraniteMoe, &kCommandR,
    &kCohere2,    &kGemma2,     &kGemma3,       &kGemma4,        &kGlm4Moe,    &kMiniMaxM2,
    &kGptOss,     &kLlama4,     &kNemotron,     &kBert,          &kNomicBert,  &kJinaBertV2,
    &kJinaBertV3, &kModernBert, &kNomicBertMoe, &kGemmaEmbedding};

// Converters write a model's adapters as files of their own, which say the same architecture.
base::Status refuse_adapter(const GgufFile& file) {
    constexpr const char* kType = "general.type";
    if (file.find(kType) == nullptr) return base::Ok{};
    TRY(const std::string type, file.get_string(kType));
    if (type != "adapter") return base::Ok{};
    return wrong_metadata(file, kType, "adapter, expected a model: adapters are not supported");
}

base::Result<ModelConfig> read_hyperparameters(const GgufFile& file) {
    TRY_VOID(refuse_adapter(file));
    TRY(std::string name, file.get_string("general.architecture"));
    const DecoderTraits* traits = find_traits(name);
    if (traits != nullptr) {
        TRY(ModelConfig config, read_decoder(file, *traits));
        config.architecture = std::move(name);
        config.name = model_name(file);
        return config;
    }
    std::vector<std::string_view> supported;
    for (const DecoderTraits* one : kArchitectures) supported.push_back(one->name);
    const std::string_view lacking = lacking_mechanisms(name);
    return base::invalid(fmt::format("{}: architecture \"{}\" is not supported{}{}; supported: {}",
                                     file.label(), name, lacking.empty() ? "" : ": it needs ",
                                     lacking, fmt::join(supported, ", ")));
}

// bytes holds the tensor `name`.
base::Result<std::vector<float>> read_rope_factors(const GgufFile& file, const std::string& name,
                                                   std::span<const std::byte> bytes) {
    std::vector<float> factors(bytes.size() / sizeof(float));
    std::memcpy(factors.data(), bytes.data(), bytes.size());
    const auto usable = [](float factor) { return std::isfinite(factor) && factor > 0; };
    if (!std::all_of(factors.begin(), factors.end(), usable)) {
        return base::invalid(
            fmt::format("{}: tensor {}: expected finite numbers above zero", file.label(), name));
    }
    return factors;
}

base::Status refuse_two_scalings(const GgufFile& file, const ModelConfig& config) {
    if (config.rope_factors.empty()) return base::Ok{};
    return base::invalid(
        fmt::format("{}: tensor {}: not expected where {}.rope.scaling.type is yarn", file.label(),
                    config.rope_factors_tensor, config.architecture));
}

struct LayerSize {
    std::int64_t bytes = 0;
    std::int64_t expert_bytes = 0;   // of these, the experts' bytes
    std::int64_t elements_used = 0;  // matrix elements that one token uses
};

std::vector<LayerSize> layer_sizes(const GgufFile& file, const ModelConfig& config) {
    std::vector<LayerSize> sizes(static_cast<std::size_t>(config.n_layers));
    for (const TensorInfo& tensor : file.tensors()) {
        const std::int32_t layer = layer_of_tensor(tensor.name);
        if (layer < 0 || layer >= config.n_layers) continue;
        LayerSize& size = sizes[static_cast<std::size_t>(layer)];
        const auto bytes = static_cast<std::int64_t>(tensor.bytes);
        const std::int64_t elements = tensor.row_length() * tensor.rows();
        size.bytes += bytes;
        if (tensor.shape.size() == 3 && config.n_experts > 0) {
            size.expert_bytes += bytes;
            size.elements_used += elements / config.n_experts * config.n_experts_used;
        } else if (!is_vector(tensor.name, tensor.shape.size())) {
            size.elements_used += elements;
        }
    }
    return sizes;
}

std::int64_t bytes_of(const GgufFile& file, std::string_view name) {
    const TensorInfo* tensor = file.find_tensor(name);
    return tensor == nullptr ? 0 : static_cast<std::int64_t>(tensor->bytes);
}

}  // namespace

const DecoderTraits* find_traits(std::string_view architecture) {
    for (const DecoderTraits* traits : kArchitectures) {
        if (traits->name == architecture) return traits;
    }
    return nullptr;
}

std::string model_name(const GgufFile& file) {
    if (auto name = file.get_string("general.name"); name.ok() && !name->empty()) return *name;
    return std::filesystem::path(file.label()).stem().string();
}

bool is_vector(std::string_view name, std::size_t dimensions) {
    return dimensions < 2 || name.ends_with(".bias") || name.ends_with("_norm.weight") ||
           name == kPositionTable || name == kTokenTypeTable;
}

std::int32_t layer_of_tensor(std::string_view name) {
    if (!name.starts_with("blk.")) return -1;
    std::int32_t layer = 0;
    std::size_t at = 4;
    for (; at < name.size() && name[at] >= '0' && name[at] <= '9' && at < 12; ++at) {
        layer = layer * 10 + (name[at] - '0');
    }
    return at > 4 && at < name.size() && name[at] == '.' ? layer : -1;
}

base::Result<const TensorInfo*> expect_tensor(const GgufFile& file, std::string_view name,
                                              const std::vector<std::int64_t>& shape) {
    const TensorInfo* tensor = file.find_tensor(name);
    const auto wrong = [&](const std::string& text) {
        return base::invalid(fmt::format("{}: tensor {}: {}", file.label(), name, text));
    };
    if (tensor == nullptr) return wrong("missing");
    if (tensor->shape != shape) {
        return wrong(fmt::format("shape [{}], expected [{}]", fmt::join(tensor->shape, ", "),
                                 fmt::join(shape, ", ")));
    }
    if (is_vector(name, shape.size()) && tensor->type != TensorType::f32) {
        return wrong(fmt::format("type {}, expected f32", tensor_type_info(tensor->type)->name));
    }
    return tensor;
}

base::Result<std::int32_t> expect_int(const GgufFile& file, std::string_view key, std::int64_t low,
                                      std::int64_t high) {
    TRY(const std::int64_t value, file.get_int(key));
    if (value < low || value > high) {
        return base::invalid(fmt::format("{}: metadata {}: {}, expected {} to {}", file.label(),
                                         key, value, low, high));
    }
    return static_cast<std::int32_t>(value);
}

base::Result<std::int32_t> optional_int(const GgufFile& file, std::string_view key,
                                        std::int64_t low, std::int64_t high,
                                        std::int32_t otherwise) {
    if (file.find(key) == nullptr) return otherwise;
    return expect_int(file, key, low, high);
}

base::Result<float> optional_positive(const GgufFile& file, std::string_view key, float otherwise) {
    if (file.find(key) == nullptr) return otherwise;
    TRY(const double value, file.get_float(key));
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow) || narrow <= 0) {
        return base::invalid(fmt::format("{}: metadata {}: {}, expected a finite number above zero",
                                         file.label(), key, value));
    }
    return narrow;
}

base::Result<ModelConfig> read_model_config(const GgufFile& file) {
    TRY(ModelConfig config, read_hyperparameters(file));
    const std::string& name = config.rope_factors_tensor;
    if (name.empty()) return config;
    TRY_VOID(refuse_two_scalings(file, config));
    const TensorInfo* factors = file.find_tensor(name);
    CHECK(factors != nullptr);
    std::vector<std::byte> bytes(factors->bytes);
    TRY_VOID(file.read(*factors, 0, bytes));
    TRY(config.rope_factors, read_rope_factors(file, name, bytes));
    return config;
}

base::Result<ModelConfig> read_model_config(WeightSource& source) {
    TRY(ModelConfig config, read_hyperparameters(source.file()));
    const std::string& name = config.rope_factors_tensor;
    if (name.empty()) return config;
    TRY_VOID(refuse_two_scalings(source.file(), config));
    TRY(const auto bytes, source.tensor(name));
    auto rope_factors = read_rope_factors(source.file(), name, bytes);
    source.release(name);
    TRY(config.rope_factors, std::move(rope_factors));
    return config;
}

base::Result<ModelConfig> read_header_config(const GgufFile& file) {
    return read_hyperparameters(file);
}

std::int32_t ModelConfig::joined_layers() const {
    std::int32_t first = n_layers;
    for (std::int32_t layer = n_layers - n_shared_kv_layers; layer < n_layers; ++layer)
        first = std::min(first, kv_layer(layer));
    return n_layers - first;
}

spec::AttentionWindow ModelConfig::attention_window() const {
    if (encoder) return {};  // rows see those after them, too, and all are computed at once
    spec::AttentionWindow window{sliding_window, chunked_attention, {}};
    for (std::int32_t layer = 0; layer < n_layers; ++layer)
        window.layers.push_back(window_of(layer) > 0);
    const bool any =
        std::find(window.layers.begin(), window.layers.end(), true) != window.layers.end();
    return any ? window : spec::AttentionWindow{};
}

base::Result<spec::ModelSpec> read_model_spec(const GgufFile& file) {
    TRY(const ModelConfig config, read_hyperparameters(file));
    spec::ModelSpec model;
    model.name = config.name;
    model.n_layers = config.n_layers;
    model.context_length = config.context_length;
    std::vector<std::int64_t> bytes_of_layer;
    std::int64_t expert_bytes = 0;
    double flops = 0;
    for (const LayerSize& size : layer_sizes(file, config)) {
        bytes_of_layer.push_back(size.bytes);
        expert_bytes += size.expert_bytes;
        flops += 2.0 * static_cast<double>(size.elements_used);
    }
    spec::set_layer_sizes(model, std::move(bytes_of_layer));
    model.layer_expert_bytes = expert_bytes / model.n_layers;
    model.flops_per_token_layer = flops / model.n_layers;
    model.n_experts = config.n_experts;
    model.n_experts_used = config.n_experts_used;
    const std::int64_t embedding = bytes_of(file, "token_embd.weight");
    if (config.layer_input > 0) {
        model.common_bytes = embedding;
        for (const char* name : {kLayerInputTable, kLayerInputProjection, kLayerInputNorm})
            model.common_bytes += bytes_of(file, name);
        // A layer's part of the projection.
        model.flops_per_token_layer += 2.0 * config.layer_input * config.hidden;
    } else {
        model.embedding_bytes = embedding;
    }
    model.joined_layers = config.joined_layers();
    model.shared_kv_layers = config.n_shared_kv_layers;
    for (const char* name : {kPositionTable, kTokenTypeTable, kEmbeddingNorm, kEmbeddingNormBias})
        model.embedding_bytes += config.encoder ? bytes_of(file, name) : 0;
    model.encoder = config.encoder;
    model.head_bytes = bytes_of(file, "output_norm.weight") + bytes_of(file, "output_norm.bias") +
                       bytes_of(file, kClassifierHead) + bytes_of(file, kClassifierHeadBias) +
                       bytes_of(file, kClassifierDense) + bytes_of(file, kClassifierDenseBias) +
                       bytes_of(file, kFirstDense) + bytes_of(file, kSecondDense) +
                       (config.tied_embeddings ? bytes_of(file, "token_embd.weight")
                                               : bytes_of(file, "output.weight"));
    model.activation_bytes_per_token = spec::activation_bytes_per_token(config.hidden);
    model.kv_bytes_per_token_layer =
        spec::kv_bytes_per_token_layer(config.page_kv_heads(), config.page_head_dim());
    model.window = config.attention_window();
    return model;
}

}  // namespace helix::model
