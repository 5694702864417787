#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "model/arch/decoder.h"

namespace helix::model {
namespace {

struct Yarn {
    double factor = 1;
    double trained_context = 0;
    double beta_fast = 32;  // rotations in the trained context above which a frequency is kept
    double beta_slow = 1;   // and below which it is divided by factor
    bool truncate = true;   // the bounds of the ramp to whole dimensions
};

// "YaRN: Efficient Context Window Extension of Large Language Models", section 3.2, with the bounds
// of the ramp rounded outwards to whole dimensions as the authors' code does, unless the model's
// were not.
std::vector<float> yarn_divisors(const ModelConfig& config, const Yarn& yarn) {
    const double dim = config.rope_dim;
    const auto dimension_of = [&](double rotations) {
        return dim * std::log(yarn.trained_context / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(static_cast<double>(config.rope_base)));
    };
    const double first = dimension_of(yarn.beta_fast);
    const double last = dimension_of(yarn.beta_slow);
    const double low = std::max(0.0, yarn.truncate ? std::floor(first) : first);
    const double high = std::min(dim - 1, yarn.truncate ? std::ceil(last) : last);
    std::vector<float> divisors;
    for (std::int32_t i = 0; i < config.rope_dim / 2; ++i) {
        const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
        divisors.push_back(static_cast<float>(1.0 / (ramp / yarn.factor + (1.0 - ramp))));
    }
    return divisors;
}

base::Status read_yarn(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto number = [&](const char* rest, float otherwise) {
        return optional_positive(file, metadata_key(traits, rest), otherwise);
    };
    Yarn yarn;
    TRY(const float factor, number("rope.scaling.factor", 1.0F));
    TRY(const std::int32_t trained,
        optional_int(file, metadata_key(traits, "rope.scaling.original_context_length"), 1,
                     1LL << 30, config.context_length));
    TRY(const float fast, number("rope.scaling.yarn_beta_fast", 32.0F));
    TRY(const float slow, number("rope.scaling.yarn_beta_slow", 1.0F));
    TRY(const float attention, number("rope.scaling.attn_factor", 1.0F));
    TRY(const float yarn_attention, number("rope.scaling.yarn_attn_factor", 1.0F));
    TRY(const float mix, number("rope.scaling.yarn_ext_factor", 1.0F));
    const std::string truncate = metadata_key(traits, kYarnTruncate);
    if (file.find(truncate) != nullptr) {
        TRY(yarn.truncate, file.get_bool(truncate));
    }
    if (mix != 1.0F) {
        return wrong_metadata(file, metadata_key(traits, "rope.scaling.yarn_ext_factor"),
                              fmt::format("{}, only 1 is supported", mix));
    }
    if (config.rope_base <= 1.0F) {
        return wrong_metadata(file, metadata_key(traits, "rope.freq_base"),
                              fmt::format("{}, yarn needs more than 1", config.rope_base));
    }
    yarn.factor = static_cast<double>(factor);
    yarn.trained_context = trained;
    yarn.beta_fast = static_cast<double>(fast);
    yarn.beta_slow = static_cast<double>(slow);
    config.rope_factors = yarn_divisors(config, yarn);
    const double stretch = 0.1 * std::log(yarn.factor) + 1.0;
    config.rope_magnitude = static_cast<float>(stretch * static_cast<double>(attention) *
                                               static_cast<double>(yarn_attention));
    return base::Ok{};
}

// Of two tensors of factors that for the context which the file promises: the same for every text
// of the model, however short, so that its keys never have to be turned again.
base::Status read_longrope(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const bool there = file.find_tensor(kShortRopeFactors) != nullptr ||
                       file.find_tensor(kLongRopeFactors) != nullptr;
    if (!there) return base::Ok{};
    TRY(const std::int32_t trained,
        expect_int(file, metadata_key(traits, "rope.scaling.original_context_length"), 1,
                   1LL << 30));
    TRY(config.rope_magnitude,
        optional_positive(file, metadata_key(traits, "rope.scaling.attn_factor"), 1.0F));
    config.rope_factors_tensor =
        config.context_length > trained ? kLongRopeFactors : kShortRopeFactors;
    return base::Ok{};
}

base::Status read_scaling(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    // Converters of 2023 write this key; later ones write rope.scaling.*.
    TRY(float factor, optional_positive(file, key("rope.scale_linear"), 1.0F));
    const std::string type_key = key("rope.scaling.type");
    if (file.find(type_key) != nullptr) {
        TRY(const std::string type, file.get_string(type_key));
        if (type == "linear") {
            TRY(factor, optional_positive(file, key("rope.scaling.factor"), factor));
        } else if (type == "yarn") {
            factor = 1.0F;
            TRY_VOID(read_yarn(file, traits, config));
        } else if (type == "none" || (type == "longrope" && traits.longrope)) {
            factor = 1.0F;
        } else {
            return wrong_metadata(
                file, type_key,
                fmt::format("\"{}\" is not supported; supported are none, linear and yarn, and "
                            "LLaMA 3.1's as the tensor rope_freqs.weight",
                            type));
        }
    }
    config.rope_scale = 1.0F / factor;
    if (traits.longrope) return read_longrope(file, traits, config);
    if (file.find_tensor(kRopeFactors) != nullptr) config.rope_factors_tensor = kRopeFactors;
    return base::Ok{};
}

}  // namespace

base::Status read_rope(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    config.rope_pairs = traits.rope_pairs;
    TRY(config.rope_dim,
        optional_int(file, key("rope.dimension_count"), 2, config.head_dim, config.head_dim));
    if (config.rope_dim % 2 != 0) {
        return wrong_metadata(file, key("rope.dimension_count"),
                              fmt::format("{}, expected an even number", config.rope_dim));
    }
    if (traits.windowed_heads) {
        const std::string windowed_key = key("rope.dimension_count_swa");
        TRY(config.windowed_rope_dim, optional_int(file, windowed_key, 2, config.windowed_head_dim,
                                                   config.windowed_head_dim));
        if (config.windowed_rope_dim % 2 != 0) {
            return wrong_metadata(
                file, windowed_key,
                fmt::format("{}, expected an even number", config.windowed_rope_dim));
        }
    }
    TRY(config.rope_base, optional_positive(file, key("rope.freq_base"), config.rope_base));
    TRY_VOID(read_scaling(file, traits, config));
    if (config.temperature_length > 0 && config.head_dim % 2 != 0) {
        return wrong_metadata(file, key("attention.key_length"),
                              fmt::format("{}, expected an even number", config.head_dim));
    }
    // Such norms come after rope and would take its magnitude back.
    if (config.qk_norm == QkNorm::unweighted && !config.rope_factors.empty()) {
        return wrong_metadata(file, key("rope.scaling.type"),
                              fmt::format("yarn is not supported in {} models", traits.name));
    }
    if (traits.plain_windowed_rope && config.sliding_window > 0) {
        const float base =
            traits.windowed_rope_base > 0 ? traits.windowed_rope_base : config.rope_base;
        TRY(config.windowed_rope_base, optional_positive(file, key("rope.freq_base_swa"), base));
    }
    if (traits.rope_with_window_only && config.sliding_window > 0) {
        for (const bool full : config.full_attention) config.rope_layers.push_back(!full);
        return base::Ok{};
    }
    TRY(config.rope_layers, read_layer_pattern(file, key("rope.layer_pattern"), config.n_layers,
                                               traits.no_rope_period, true));
    return base::Ok{};
}

}  // namespace helix::model
