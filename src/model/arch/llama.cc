#include <limits>

#include <fmt/format.h>

#include "model/arch/architecture.h"

// LLaMA 1, 2, 3, 3.1 and what else is stored under that name with dense layers (Mistral,
// TinyLlama).

namespace helix::model {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxWidth = 1 << 24;

base::Error wrong(const GgufFile& file, std::string_view key, const std::string& text) {
    return base::invalid(fmt::format("{}: metadata {}: {}", file.label(), key, text));
}

base::Status read_attention(const GgufFile& file, ModelConfig& config) {
    TRY(config.n_heads, expect_int(file, "llama.attention.head_count", 1, kMaxWidth));
    TRY(config.n_kv_heads,
        optional_int(file, "llama.attention.head_count_kv", 1, kMaxWidth, config.n_heads));
    if (config.n_heads % config.n_kv_heads != 0) {
        return wrong(file, "llama.attention.head_count_kv",
                     fmt::format("{}, expected a divisor of the {} heads", config.n_kv_heads,
                                 config.n_heads));
    }
    if (file.find("llama.attention.key_length") == nullptr && config.hidden % config.n_heads != 0) {
        return wrong(file, "llama.attention.head_count",
                     fmt::format("{}, expected a divisor of llama.embedding_length {}",
                                 config.n_heads, config.hidden));
    }
    TRY(config.head_dim, optional_int(file, "llama.attention.key_length", 1, kMaxWidth,
                                      config.hidden / config.n_heads));
    TRY(const std::int32_t value_dim,
        optional_int(file, "llama.attention.value_length", 1, kMaxWidth, config.head_dim));
    if (value_dim != config.head_dim) {
        return wrong(file, "llama.attention.value_length",
                     fmt::format("{}, expected the key length {}", value_dim, config.head_dim));
    }
    TRY(config.norm_epsilon,
        optional_positive(file, "llama.attention.layer_norm_rms_epsilon", config.norm_epsilon));
    return base::Ok{};
}

base::Status read_rope(const GgufFile& file, ModelConfig& config) {
    TRY(config.rope_dim,
        optional_int(file, "llama.rope.dimension_count", 2, config.head_dim, config.head_dim));
    if (config.rope_dim % 2 != 0) {
        return wrong(file, "llama.rope.dimension_count",
                     fmt::format("{}, expected an even number", config.rope_dim));
    }
    TRY(config.rope_base, optional_positive(file, "llama.rope.freq_base", config.rope_base));
    // Written by converters of 2023; later ones write rope.scaling.*.
    TRY(float factor, optional_positive(file, "llama.rope.scale_linear", 1.0F));
    if (file.find("llama.rope.scaling.type") != nullptr) {
        TRY(const std::string type, file.get_string("llama.rope.scaling.type"));
        if (type == "linear") {
            TRY(factor, optional_positive(file, "llama.rope.scaling.factor", factor));
        } else if (type == "none") {
            factor = 1.0F;
        } else {
            return wrong(file, "llama.rope.scaling.type",
                         fmt::format("\"{}\" is not supported; supported are none and linear, and "
                                     "LLaMA 3.1's as the tensor rope_freqs.weight",
                                     type));
        }
    }
    config.rope_scale = 1.0F / factor;
    return base::Ok{};
}

base::Result<std::size_t> check_layer(const GgufFile& file, const ModelConfig& config,
                                      std::int32_t layer) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t q = std::int64_t{config.n_heads} * config.head_dim;
    const std::int64_t kv = std::int64_t{config.n_kv_heads} * config.head_dim;
    const struct {
        const char* name;
        std::vector<std::int64_t> shape;
    } expected[] = {
        {"attn_norm", {hidden}},     {"attn_q", {hidden, q}},      {"attn_k", {hidden, kv}},
        {"attn_v", {hidden, kv}},    {"attn_output", {q, hidden}}, {"ffn_norm", {hidden}},
        {"ffn_gate", {hidden, ffn}}, {"ffn_up", {hidden, ffn}},    {"ffn_down", {ffn, hidden}},
    };
    for (const auto& tensor : expected) {
        const std::string name = fmt::format("blk.{}.{}.weight", layer, tensor.name);
        TRY_VOID(expect_tensor(file, name, tensor.shape));
    }
    return std::size(expected);
}

// A tensor that would be left unused (a bias, an expert) changes what the model computes.
base::Status refuse_other_tensors(const GgufFile& file, const ModelConfig& config) {
    for (const TensorInfo& tensor : file.tensors()) {
        std::string_view rest = tensor.name;
        if (rest == "token_embd.weight" || rest == "output_norm.weight" ||
            rest == "output.weight" || rest == "rope_freqs.weight") {
            continue;
        }
        bool known = false;
        for (const std::string_view end :
             {".attn_norm.weight", ".attn_q.weight", ".attn_k.weight", ".attn_v.weight",
              ".attn_output.weight", ".ffn_norm.weight", ".ffn_gate.weight", ".ffn_up.weight",
              ".ffn_down.weight", ".attn_rot_embd.weight"}) {
            known = known || rest.ends_with(end);
        }
        const std::int32_t layer = layer_of_tensor(tensor.name);
        if (!known || layer < 0 || layer >= config.n_layers) {
            return base::invalid(
                fmt::format("{}: tensor {}: not part of a dense llama model of {} "
                            "layers",
                            file.label(), tensor.name, config.n_layers));
        }
    }
    return base::Ok{};
}

base::Status check_tensors(const GgufFile& file, ModelConfig& config) {
    const TensorInfo* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr) {
        return base::invalid(file.label() + ": tensor token_embd.weight: missing");
    }
    if (embedding->shape.size() != 2 ||
        embedding->shape[1] > std::numeric_limits<std::int32_t>::max()) {
        return base::invalid(fmt::format(
            "{}: tensor token_embd.weight: expected two dimensions, the hidden size and a "
            "vocabulary below 2^31",
            file.label()));
    }
    const std::int64_t vocab = embedding->shape[1];
    config.vocab = static_cast<std::int32_t>(vocab);
    TRY_VOID(expect_tensor(file, "token_embd.weight", {config.hidden, vocab}));
    TRY_VOID(expect_tensor(file, "output_norm.weight", {config.hidden}));
    config.tied_embeddings = file.find_tensor("output.weight") == nullptr;
    if (!config.tied_embeddings) {
        TRY_VOID(expect_tensor(file, "output.weight", {config.hidden, vocab}));
    }
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        TRY_VOID(check_layer(file, config, layer));
    }
    if (file.find_tensor("rope_freqs.weight") != nullptr) {
        TRY_VOID(expect_tensor(file, "rope_freqs.weight", {config.rope_dim / 2}));
    }
    return refuse_other_tensors(file, config);
}

base::Status check_vocabulary(const GgufFile& file, const ModelConfig& config) {
    const MetaValue* tokens = file.find("tokenizer.ggml.tokens");
    if (tokens == nullptr) return base::Ok{};
    const auto* array = std::get_if<MetaArray>(tokens);
    const auto* strings = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
    if (strings == nullptr) {
        return wrong(file, "tokenizer.ggml.tokens", "expected an array of strings");
    }
    if (strings->size() > static_cast<std::size_t>(config.vocab)) {  // fewer: padded embeddings
        return wrong(
            file, "tokenizer.ggml.tokens",
            fmt::format("{} tokens, the embedding has {} rows", strings->size(), config.vocab));
    }
    return base::Ok{};
}

base::Result<ModelConfig> read_llama(const GgufFile& file) {
    ModelConfig config;
    TRY(config.n_layers, expect_int(file, "llama.block_count", 1, kMaxLayers));
    TRY(config.hidden, expect_int(file, "llama.embedding_length", 1, kMaxWidth));
    TRY(config.ffn, expect_int(file, "llama.feed_forward_length", 1, kMaxWidth));
    TRY(config.context_length,
        expect_int(file, "llama.context_length", 1, std::numeric_limits<std::int32_t>::max()));
    TRY(const std::int32_t experts, optional_int(file, "llama.expert_count", 0, kMaxWidth, 0));
    if (experts > 0) {
        return wrong(file, "llama.expert_count",
                     fmt::format("{}: mixture-of-experts models are not supported", experts));
    }
    TRY_VOID(read_attention(file, config));
    TRY_VOID(read_rope(file, config));
    TRY_VOID(check_tensors(file, config));
    TRY_VOID(check_vocabulary(file, config));
    return config;
}

}  // namespace

const Architecture kLlama{"llama", read_llama};

}  // namespace helix::model
