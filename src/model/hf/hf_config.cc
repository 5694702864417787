#include "model/hf/hf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "model/arch/decoder.h"
#include "model/hf/hf_encoder.h"
#include "model/hf/hf_families.h"
#include "model/limits.h"
#include "model/rope_scaling.h"

namespace helix::model {
namespace {

using spec::JsonPlace;

constexpr const char* kPartialRotary = "partial_rotary_factor";
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

// Reads one config.json. The keys of the metadata begin with the architecture's name.
class ConfigReader {
  public:
    ConfigReader(const JsonPlace& root, const HfFamily& family, GgufBuilder& metadata)
        : root_(root), family_(family), metadata_(metadata) {}

    base::Result<HfConfig> read() {
        config_.architecture = family_.architecture;
        config_.traits = find_traits(family_.architecture);
        CHECK(config_.traits != nullptr);
        config_.norms = family_.norms;
        config_.interleaves =
            config_.traits->rope_pairs == RopePairs::adjacent && !family_.adjacent;
        config_.experts = family_.experts;
        config_.feed_forward = family_.feed_forward;
        TRY_VOID(refuse_what_we_lack());
        TRY_VOID(read_sizes());
        TRY_VOID(read_heads());
        TRY_VOID(read_scales());
        TRY_VOID(read_experts());
        TRY_VOID(read_rope());
        TRY_VOID(read_window());
        TRY_VOID(read_windowed_heads());
        TRY_VOID(read_token_ids());
        set("context_length", static_cast<std::uint32_t>(context_));
        if (family_.both_ways) {
            config_.prefix = "";
            set("attention.causal", false);
        }
        return std::move(config_);
    }

  private:
    void set(const char* rest, GgufValue value) {
        metadata_.set(fmt::format("{}.{}", family_.architecture, rest), std::move(value));
    }
    void set_count(const char* rest, std::int32_t value) {
        set(rest, static_cast<std::uint32_t>(value));
    }

    base::Status refuse_what_we_lack() {
        if (family_.experts == HfExperts::gpt_oss) TRY_VOID(check_quantisation_of_gpt_oss());
        if (config_.traits->windowed_heads) {
            TRY(has_experts_, root_.flag_or("enable_moe_block", false));
        }
        const bool gelu = config_.traits->activation == Activation::gelu;
        const char* key =
            gelu && root_.present("hidden_activation") ? "hidden_activation" : "hidden_act";
        const std::string expected = family_.activation;
        TRY(const std::string activation, root_.text_or(key, expected));
        if (activation != expected) return root_.child(key).error(fmt::format("\"{}\"", expected));
        TRY_VOID(read_qk_norm());
        TRY(const bool mlp_bias, root_.flag_or("mlp_bias", false));
        if (mlp_bias) return root_.child("mlp_bias").error("false");
        TRY_VOID(check_partial_rotary(place_of_partial_rotary()));
        TRY_VOID(read_attention_bias());
        if (config_.traits->activation == Activation::clamped_silu) {
            TRY(const float limit, root_.positive_or("swiglu_limit", 7));
            if (limit != 7.0F) return root_.child("swiglu_limit").error("7");
        }
        return base::Ok{};
    }

    base::Status read_attention_bias() {
        TRY(const bool bias, root_.flag_or("attention_bias", false));
        if (bias && family_.bias == HfAttentionBias::with_output)
            return root_.child("attention_bias").error("false");
        const bool always = family_.bias == HfAttentionBias::always_qkv ||
                            family_.bias == HfAttentionBias::always_all;
        config_.qkv_bias = bias || always;
        TRY(const bool said, root_.flag_or("qkv_bias", config_.qkv_bias));
        if (said == config_.qkv_bias) return base::Ok{};
        return root_.child("qkv_bias").error(config_.qkv_bias ? "true" : "false");
    }

    // Experts of gpt-oss are MXFP4, and nothing else is quantised.
    base::Status check_quantisation_of_gpt_oss() {
        TRY(const JsonPlace place, root_.member("quantization_config"));
        TRY_VOID(place.expect_object());
        TRY(const std::string method, place.text_or("quant_method", ""));
        if (method != "mxfp4") return place.child("quant_method").error("\"mxfp4\"");
        return base::Ok{};
    }

    // Later versions write it among the parameters of rope.
    JsonPlace place_of_partial_rotary() const {
        if (!root_.present("rope_parameters")) return root_;
        const JsonPlace rope = root_.child("rope_parameters");
        return rope.value().is_object() && rope.present(kPartialRotary) ? rope : root_;
    }

    // Most families rotate whole heads.
    base::Status check_partial_rotary(const JsonPlace& place) const {
        TRY(const float part, place.positive_or(kPartialRotary, 1));
        if (family_.partial_rotary > 0 || part == 1.0F) return base::Ok{};
        return place.child(kPartialRotary).error("1");
    }

    // use_qk_norm: false where a family has no such norm, true where it always has.
    base::Status read_qk_norm() {
        const DecoderTraits& traits = *config_.traits;
        const bool has = traits.qk_norm != QkNorm::none;
        if (traits.qk_norm == QkNorm::unweighted) {
            TRY(const bool normed, root_.flag_or("use_qk_norm", true));
            set(kUnweightedQkNorm, normed);
            return base::Ok{};
        }
        const bool open = traits.qk_norm_optional;
        TRY(config_.qk_norm, root_.flag_or("use_qk_norm", has && !open));
        if (!open && config_.qk_norm != has)
            return root_.child("use_qk_norm").error(has ? "true" : "false");
        return base::Ok{};
    }

    base::Status read_sizes() {
        TRY(config_.n_layers, root_.count("num_hidden_layers", limits::kMaxLayers));
        TRY(config_.hidden, root_.count("hidden_size", limits::kMaxHidden));
        TRY(config_.ffn, root_.count(family_.width_key, limits::kMaxFeedForward));
        if (has_experts_) {
            config_.dense_ffn = config_.ffn;
            TRY(config_.ffn, root_.count("moe_intermediate_size", limits::kMaxFeedForward));
        }
        TRY(config_.vocab, root_.count("vocab_size", limits::kMaxVocabulary));
        TRY(context_, root_.count_or("max_position_embeddings", limits::kMaxContext, 2048));
        const bool often_tied = config_.traits->tied_by_default;
        TRY(config_.tied_embeddings, root_.flag_or("tie_word_embeddings", often_tied));
        const bool centred = config_.traits->norm == NormKind::layer;
        TRY(const float epsilon, root_.positive_or(family_.epsilon_key, family_.norm_epsilon));
        set_count("block_count", config_.n_layers);
        set_count("embedding_length", config_.hidden);
        TRY_VOID(read_dense_parts());
        TRY_VOID(read_layer_inputs());
        set_widths();
        set_count("vocab_size", config_.vocab);
        set(centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", epsilon);
        return base::Ok{};
    }

    // Inputs of layers, and layers that share keys and values, whose feed-forwards may be twice as
    // wide.
    base::Status read_layer_inputs() {
        if (!config_.traits->layer_inputs) return base::Ok{};
        const char* kInput = "hidden_size_per_layer_input";
        const char* kShared = "num_kv_shared_layers";
        const char* kVocabulary = "vocab_size_per_layer_input";
        TRY(config_.layer_input, root_.whole_or_zero(kInput, limits::kMaxHidden));
        TRY(config_.n_shared_kv_layers, root_.whole_or_zero(kShared, config_.n_layers - 1));
        set_count("embedding_length_per_layer_input", config_.layer_input);
        set_count("attention.shared_kv_layers", config_.n_shared_kv_layers);
        const bool inputs = config_.layer_input > 0;
        if (has_experts_ && (inputs || config_.n_shared_kv_layers > 0))
            return root_.child(inputs ? kInput : kShared).error("0 in a model with experts");
        TRY(const std::int32_t rows,
            root_.count_or(kVocabulary, limits::kMaxVocabulary, config_.vocab));
        if (inputs && rows != config_.vocab)
            return root_.child(kVocabulary)
                .error(fmt::format("{}, as vocab_size says", config_.vocab));
        TRY(const bool wide, root_.flag_or("use_double_wide_mlp", false));
        if (!wide || config_.n_shared_kv_layers == 0) return base::Ok{};
        if (config_.ffn > limits::kMaxFeedForward / 2) {
            return root_.child("use_double_wide_mlp")
                .error(fmt::format("false: twice {} is more than {}, the limit", config_.ffn,
                                   limits::kMaxFeedForward));
        }
        config_.shared_kv_ffn = 2 * config_.ffn;
        return base::Ok{};
    }

    // One width of the feed-forwards, or that of each layer.
    void set_widths() {
        const char* kWidths = "feed_forward_length";
        if (config_.shared_kv_ffn == 0)
            return set_count(kWidths, config_.dense_ffn > 0 ? config_.dense_ffn : config_.ffn);
        std::vector<std::int32_t> widths;
        for (std::int32_t l = 0; l < config_.n_layers; ++l)
            widths.push_back(config_.dense_width(l));
        set(kWidths, std::move(widths));
    }

    // Layers without experts, the expert that every row visits, and layers behind the last.
    base::Status read_dense_parts() {
        if (family_.experts_key == nullptr) return base::Ok{};
        TRY(config_.n_dense_layers,
            root_.whole_or_zero("first_k_dense_replace", config_.n_layers - 1));
        if (config_.n_dense_layers > 0) {
            TRY(config_.dense_ffn, root_.count("intermediate_size", limits::kMaxFeedForward));
            set_count("leading_dense_block_count", config_.n_dense_layers);
        }
        if (config_.traits->expert_period) TRY_VOID(read_expert_period());
        TRY(const std::int32_t shared,
            root_.whole_or_zero("n_shared_experts", limits::kMaxExperts));
        TRY(config_.shared_ffn,
            root_.whole_or_zero("shared_intermediate_size", limits::kMaxFeedForward));
        if (shared > 0) {
            const std::int64_t width = std::int64_t{shared} * config_.ffn;
            if (width > limits::kMaxFeedForward) {
                return root_.child("n_shared_experts")
                    .error(fmt::format("a width of at most {} together", limits::kMaxFeedForward));
            }
            config_.shared_ffn = static_cast<std::int32_t>(width);
        }
        if (config_.traits->shared_expert) config_.shared_ffn = config_.ffn;
        if (config_.traits->shared_gate) {
            TRY(config_.shared_ffn,
                root_.count("shared_expert_intermediate_size", limits::kMaxFeedForward));
        }
        if (config_.shared_ffn > 0)
            set_count("expert_shared_feed_forward_length", config_.shared_ffn);
        TRY(config_.n_skipped_layers,
            root_.whole_or_zero("num_nextn_predict_layers", limits::kMaxLayers));
        return base::Ok{};
    }

    // Which layers have experts: every one, or every second and so on. The others have another
    // width.
    base::Status read_expert_period() {
        TRY(config_.expert_period,
            root_.count_or("interleave_moe_layer_step", config_.n_layers, 1));
        set_count("interleave_moe_layer_step", config_.expert_period);
        if (config_.expert_period > 1) {
            TRY(config_.dense_ffn,
                root_.count_or("intermediate_size_mlp", limits::kMaxFeedForward, 16384));
        }
        if (!root_.present("moe_layers")) return base::Ok{};
        const JsonPlace layers = root_.child("moe_layers");
        TRY(const std::size_t n, layers.array_size());
        for (std::size_t i = 0; i < n; ++i) {
            TRY(const std::int64_t layer, layers.element(i).integer());
            if (layer + 1 == static_cast<std::int64_t>(i + 1) * config_.expert_period) continue;
            return layers.element(i).error("the layers that interleave_moe_layer_step says");
        }
        if (n == static_cast<std::size_t>(config_.n_layers / config_.expert_period))
            return base::Ok{};
        return layers.error(fmt::format("{} layers, as interleave_moe_layer_step says",
                                        config_.n_layers / config_.expert_period));
    }

    // How `used` experts are chosen by sigmoids.
    base::Status read_sigmoid_routing(std::int32_t used) {
        if (config_.traits->gating != Gating::sigmoid) return base::Ok{};
        TRY(const std::string scoring, root_.text_or("scoring_func", "sigmoid"));
        if (scoring != "sigmoid") return root_.child("scoring_func").error("\"sigmoid\"");
        TRY_VOID(read_expert_groups(used));
        TRY(config_.selection_bias,
            root_.flag_or("use_routing_bias", !config_.traits->weighted_expert_inputs));
        TRY(const float scale, root_.positive_or("routed_scaling_factor", 1));
        set_count("expert_gating_func", 2);
        set("expert_weights_scale", scale);
        return base::Ok{};
    }

    base::Status read_expert_groups(std::int32_t used) {
        TRY(const std::int32_t groups, root_.count_or("n_group", limits::kMaxExpertGroups, 1));
        if (groups == 1) return base::Ok{};
        const JsonPlace place = root_.child("n_group");
        if (!config_.traits->expert_groups) return place.error("1");
        TRY(const std::int32_t groups_used, root_.count_or("topk_group", groups, 1));
        const std::string problem =
            problem_with_expert_groups(config_.n_experts, used, groups, groups_used);
        if (!problem.empty()) return place.complaint(fmt::format("{}, {}", groups, problem));
        set_count("expert_group_count", groups);
        set_count("expert_group_used_count", groups_used);
        return base::Ok{};
    }

    // Factors and soft caps, under the names of the families that have them.
    base::Status read_scales() {
        const DecoderTraits& traits = *config_.traits;
        const auto copy = [&](bool there, const char* theirs, const char* ours) -> base::Status {
            if (!there || !root_.present(theirs)) return base::Ok{};
            TRY(const float value, root_.positive_or(theirs, 1));
            set(ours, value);
            return base::Ok{};
        };
        using enum DecoderTraits::LogitScale;
        TRY_VOID(copy(traits.scales, "embedding_multiplier", "embedding_scale"));
        TRY_VOID(copy(traits.scales, "residual_multiplier", "residual_scale"));
        TRY_VOID(copy(traits.scales, "attention_multiplier", "attention.scale"));
        TRY_VOID(copy(traits.logit_scale == divides, "logits_scaling", "logit_scale"));
        TRY_VOID(copy(traits.logit_scale == multiplies, "logit_scale", "logit_scale"));
        if (traits.logit_scale == multiplies && !root_.present("logit_scale"))
            set("logit_scale", 0.0625F);
        TRY_VOID(copy(traits.attention_softcap >= 0, "attn_logit_softcapping",
                      "attn_logit_softcapping"));
        TRY_VOID(
            copy(traits.logit_softcap >= 0, "final_logit_softcapping", "final_logit_softcapping"));
        if (traits.layers_scaled_by_hidden == 0 || !root_.present("query_pre_attn_scalar"))
            return base::Ok{};
        TRY(const float dims, root_.positive_or("query_pre_attn_scalar", 1));
        const bool by_hidden =
            traits.layers_scaled_by_hidden == config_.n_layers &&
            dims * static_cast<float>(config_.n_heads) == static_cast<float>(config_.hidden);
        if (!by_hidden && dims != static_cast<float>(config_.head_dim))
            set("attention.scale", 1.0F / std::sqrt(dims));
        return base::Ok{};
    }

    base::Status read_heads() {
        TRY(config_.n_heads, root_.count("num_attention_heads", limits::kMaxHeads));
        TRY(config_.n_kv_heads,
            root_.count_or("num_key_value_heads", limits::kMaxHeads, config_.n_heads));
        TRY(config_.head_dim,
            root_.count_or("head_dim", limits::kMaxHeadDim, config_.hidden / config_.n_heads));
        TRY_VOID(read_other_heads());
        if (!root_.present("head_dim") && config_.hidden % config_.n_heads != 0) {
            return root_.complaint(fmt::format(
                "num_attention_heads: {}, expected a divisor of hidden_size {}, or head_dim",
                config_.n_heads, config_.hidden));
        }
        const std::int64_t width =
            std::int64_t{std::max(config_.head_dim, config_.windowed_head_dim)} *
            std::max({config_.n_heads, config_.n_kv_heads, config_.windowed_kv_heads});
        if (width > limits::kMaxHeadsWidth) {
            return root_.complaint(
                fmt::format("the heads of a layer have {} dimensions together, "
                            "the limit is {}",
                            width, limits::kMaxHeadsWidth));
        }
        set_count("attention.head_count", config_.n_heads);
        if (!config_.traits->windowed_heads)
            set_count("attention.head_count_kv", config_.n_kv_heads);
        set_count("attention.key_length", config_.head_dim);
        set_count("attention.value_length", config_.head_dim);
        rope_dim_ = config_.head_dim;
        if (family_.partial_rotary > 0) {
            const JsonPlace place = place_of_partial_rotary();
            TRY(const float part, place.positive_or(kPartialRotary, family_.partial_rotary));
            const auto dims =
                static_cast<std::int32_t>(static_cast<float>(config_.head_dim) * part);
            if (dims < 2 || dims > config_.head_dim)
                return place.child(kPartialRotary).error("more than 0, at most 1");
            TRY(rope_dim_, root_.count_or("rotary_dim", config_.head_dim, dims));
        }
        set_count("rope.dimension_count", rope_dim_);
        return read_rope_layers();
    }

    // What was read are the heads of layers with the window, where there are others.
    base::Status read_other_heads() {
        if (!config_.traits->windowed_heads) return base::Ok{};
        for (const char* key : {"head_dim", "global_head_dim"}) TRY_VOID(root_.member(key));
        config_.windowed_kv_heads = config_.n_kv_heads;
        config_.windowed_head_dim = config_.head_dim;
        TRY(config_.head_dim,
            root_.count_or("global_head_dim", limits::kMaxHeadDim, config_.head_dim));
        TRY(config_.keys_are_values, root_.flag_or("attention_k_eq_v", false));
        if (!config_.keys_are_values) return base::Ok{};
        TRY(config_.n_kv_heads,
            root_.count_or("num_global_key_value_heads", limits::kMaxHeads, config_.n_kv_heads));
        return base::Ok{};
    }

    // After the window.
    base::Status read_windowed_heads() {
        if (!config_.traits->windowed_heads) return base::Ok{};
        TRY(const JsonPlace types, root_.member("layer_types"));
        if (std::ssize(config_.windowed) != config_.n_layers)
            return types.error(fmt::format("{} names, one a layer", config_.n_layers));
        std::vector<std::int32_t> kv_heads;
        for (const bool windowed : config_.windowed)
            kv_heads.push_back(windowed ? config_.windowed_kv_heads : config_.n_kv_heads);
        set("attention.head_count_kv", std::move(kv_heads));
        set_count("attention.key_length_swa", config_.windowed_head_dim);
        set_count("attention.value_length_swa", config_.windowed_head_dim);
        set_count("rope.dimension_count_swa", config_.windowed_head_dim);
        return check_shared_keys();
    }

    // A layer without keys and values of its own needs one of its kind of window that has some.
    base::Status check_shared_keys() {
        const std::vector<bool>& windowed = config_.windowed;
        const auto end = windowed.end() - config_.n_shared_kv_layers;
        for (auto shared = end; shared != windowed.end(); ++shared) {
            if (std::find(windowed.begin(), end, *shared) != end) continue;
            return root_.child("num_kv_shared_layers")
                .error("layers of each kind that share no keys and values");
        }
        return base::Ok{};
    }

    // Which layers rotate queries and keys: 1 means that one does.
    base::Status read_rope_layers() {
        if (config_.traits->no_rope_period == 0 || !root_.present("no_rope_layers"))
            return base::Ok{};
        std::vector<bool> rotates;
        TRY_VOID(read_rotating_layers("no_rope_layers", rotates));
        set("rope.layer_pattern", rotates);
        return base::Ok{};
    }

    base::Status read_experts() {
        if (family_.experts_key == nullptr && !has_experts_) return base::Ok{};
        TRY(config_.n_experts,
            root_.count(has_experts_ ? "num_experts" : family_.experts_key, limits::kMaxExperts));
        TRY(const std::int32_t used,
            root_.count(has_experts_ ? "top_k_experts" : "num_experts_per_tok",
                        std::int64_t{config_.n_experts}));
        const std::int64_t matrices = std::int64_t{3} * config_.n_layers * config_.n_experts;
        if (matrices > limits::kMaxTensors) {
            return root_.complaint(
                fmt::format("{} layers of {} experts have {} matrices, the limit is {}",
                            config_.n_layers, config_.n_experts, matrices, limits::kMaxTensors));
        }
        TRY(const bool normalise, root_.flag_or("norm_topk_prob", family_.normalises));
        TRY(const std::int32_t step, root_.count_or("decoder_sparse_step", kMaxCount, 1));
        if (step != 1) return root_.child("decoder_sparse_step").error("1");
        if (root_.present("mlp_only_layers")) {
            const JsonPlace dense = root_.child("mlp_only_layers");
            TRY(const std::size_t n, dense.array_size());
            if (n > 0) return dense.error("an empty array: every layer has experts");
        }
        set_count("expert_count", config_.n_experts);
        set_count("expert_used_count", used);
        set_count("expert_feed_forward_length", config_.ffn);
        set("expert_weights_norm", normalise);
        return read_sigmoid_routing(used);
    }

    // Reads rope_theta and rope_scaling, or both in rope_parameters, as later versions write them.
    base::Status read_rope() {
        const bool together = root_.present("rope_parameters");
        const JsonPlace all = together ? root_.child("rope_parameters") : root_;
        TRY_VOID(all.expect_object());
        // Those of layers with and without the window may be apart.
        const bool apart = together && all.has("full_attention");
        const JsonPlace where = apart ? all.child("full_attention") : all;
        TRY_VOID(where.expect_object());
        TRY(base_, where.positive_or("rope_theta", family_.rope_base));
        set("rope.freq_base", base_);
        TRY_VOID(read_windowed_rope(apart ? all : root_, apart));
        if (together) return read_scaling(where);
        if (!root_.present("rope_scaling")) return base::Ok{};
        return read_scaling(root_.child("rope_scaling"));
    }

    // The base of the layers with a window, where they have one of their own.
    base::Status read_windowed_rope(const JsonPlace& where, bool apart) {
        const bool own = config_.traits->windowed_rope_base > 0;
        if (apart && !own) return where.complaint("full_attention: not expected in this family");
        const JsonPlace windowed =
            apart && where.has("sliding_attention") ? where.child("sliding_attention") : where;
        const char* key = apart ? "rope_theta" : "rope_local_base_freq";
        TRY(const std::string type, windowed.text_or("rope_type", "default"));
        if (apart && type != "default") return windowed.child("rope_type").error("\"default\"");
        if (apart) TRY_VOID(check_partial_rotary(windowed));
        if (!own || !windowed.present(key)) return base::Ok{};
        TRY(const float base, windowed.positive_or(key, 10000));
        set("rope.freq_base_swa", base);
        return base::Ok{};
    }

    base::Status read_scaling(const JsonPlace& scaling) {
        TRY_VOID(scaling.expect_object());
        const char* type_key = scaling.present("rope_type") ? "rope_type" : "type";
        TRY(const std::string type, scaling.text_or(type_key, "default"));
        if (config_.traits->windowed_heads && type == "proportional")
            return read_proportional(scaling);
        TRY_VOID(check_partial_rotary(scaling));
        if (type == "default") return base::Ok{};
        if (config_.traits->longrope && (type == "longrope" || type == "su"))
            return read_longrope(scaling);
        if (type != "linear" && type != "yarn" && type != "llama3") {
            return scaling.child(type_key).error("\"default\", \"linear\", \"yarn\" or \"llama3\"");
        }
        TRY_VOID(scaling.member("factor"));
        TRY(const float factor, scaling.positive_or("factor", 1));
        if (type == "linear") {
            set("rope.scaling.type", type);
            set("rope.scaling.factor", factor);
            return base::Ok{};
        }
        TRY(const std::int32_t trained,
            scaling.count_or("original_max_position_embeddings", kMaxCount, context_));
        if (type == "yarn") return read_yarn(scaling, factor, trained);
        Llama3RopeScaling llama3;
        llama3.rope_base = base_;
        llama3.rope_dim = rope_dim_;
        llama3.factor = factor;
        llama3.trained_context = trained;
        TRY(llama3.low_frequency_factor, scaling.positive_or("low_freq_factor", 1));
        TRY(llama3.high_frequency_factor, scaling.positive_or("high_freq_factor", 4));
        if (llama3.high_frequency_factor < llama3.low_frequency_factor) {
            return scaling.complaint("high_freq_factor: expected at least low_freq_factor");
        }
        config_.rope_factors[kRopeFactors] = llama3_rope_factors(llama3);
        return base::Ok{};
    }

    // Of a head only a share is turned.
    base::Status read_proportional(const JsonPlace& scaling) {
        TRY(const float share, scaling.positive_or(kPartialRotary, 1));
        if (share > 1) return scaling.child(kPartialRotary).error("at most 1");
        TRY(const float factor, scaling.positive_or("factor", 1));
        if (factor != 1.0F) return scaling.child("factor").error("1");
        config_.rope_factors[kRopeFactors] = proportional_rope_factors(rope_dim_, share);
        return base::Ok{};
    }

    // Factors for contexts up to the trained one and for longer ones; cos and sin are stretched
    // where there are longer ones.
    base::Status read_longrope(const JsonPlace& scaling) {
        const char* kTrained = "original_max_position_embeddings";
        const JsonPlace where = scaling.present(kTrained) ? scaling : root_;
        TRY(const std::int32_t trained, where.count(kTrained, kMaxCount));
        const double factor = static_cast<double>(context_) / trained;
        const double usual =
            factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(trained)))
                       : 1.0;
        TRY(const float attention, scaling.positive_or("attention_factor", usual));
        for (const auto& [key, tensor] : {std::pair("long_factor", kLongRopeFactors),
                                          std::pair("short_factor", kShortRopeFactors)}) {
            TRY(const JsonPlace list, scaling.member(key));
            TRY(const std::size_t n, list.array_size());
            if (n != static_cast<std::size_t>(rope_dim_ / 2))
                return list.error(fmt::format("{} numbers, one a frequency", rope_dim_ / 2));
            std::vector<float>& factors = config_.rope_factors[tensor];
            for (std::size_t i = 0; i < n; ++i) {
                TRY(const double one, list.element(i).number());
                factors.push_back(static_cast<float>(one));
            }
        }
        set_count("rope.scaling.original_context_length", trained);
        set("rope.scaling.attn_factor", attention);
        return base::Ok{};
    }

    base::Status read_yarn(const JsonPlace& scaling, float factor, std::int32_t trained) {
        for (const char* key : {"mscale", "mscale_all_dim"}) {
            if (scaling.present(key))
                return scaling.complaint(std::string(key) + ": not supported");
        }
        TRY(const bool truncate, scaling.flag_or("truncate", true));
        if (!truncate) set(kYarnTruncate, false);
        const double usual = 0.1 * std::log(static_cast<double>(factor)) + 1.0;
        TRY(const float attention, scaling.positive_or("attention_factor", usual));
        TRY(const float fast, scaling.positive_or("beta_fast", 32));
        TRY(const float slow, scaling.positive_or("beta_slow", 1));
        set("rope.scaling.type", std::string("yarn"));
        set("rope.scaling.factor", factor);
        set_count("rope.scaling.original_context_length", trained);
        if (scaling.present("attention_factor")) {
            set("rope.scaling.attn_factor",
                static_cast<float>(static_cast<double>(attention) / usual));
        }
        set("rope.scaling.yarn_beta_fast", fast);
        set("rope.scaling.yarn_beta_slow", slow);
        const double reach = static_cast<double>(factor) * trained;
        context_ = std::max(context_, static_cast<std::int32_t>(std::min(
                                          reach, static_cast<double>(limits::kMaxContext))));
        return base::Ok{};
    }

    // Chunks in the layers that rotate, and a temperature in the others.
    base::Status read_chunks() {
        const DecoderTraits& traits = *config_.traits;
        TRY(const std::int32_t positions,
            root_.count_or("attention_chunk_size", kMaxCount,
                           root_.has("attention_chunk_size") ? 0 : traits.chunk_positions));
        if (positions == 0) return root_.child("attention_chunk_size").error("a number above zero");
        set_count(kAttentionChunkSize, positions);
        std::vector<bool> chunked;
        TRY(const std::int32_t interval,
            root_.count_or("no_rope_layer_interval", limits::kMaxLayers, 4));
        for (std::int32_t l = 0; l < config_.n_layers; ++l)
            chunked.push_back((l + 1) % interval != 0);
        TRY_VOID(read_rotating_layers("no_rope_layers", chunked));
        TRY_VOID(check_chunked_layers(chunked));
        set("attention.sliding_window_pattern", chunked);
        config_.windowed = std::move(chunked);
        return read_temperature();
    }

    // Calls read with the entry of each layer in this list, if it is there.
    template <typename Read>
    base::Status each_layer(const char* key, const char* kind, Read read) {
        if (!root_.present(key)) return base::Ok{};
        const JsonPlace list = root_.child(key);
        TRY(const std::size_t n, list.array_size());
        if (n != static_cast<std::size_t>(config_.n_layers))
            return list.error(fmt::format("{} {}, one a layer", config_.n_layers, kind));
        for (std::size_t l = 0; l < n; ++l) TRY_VOID(read(list.element(l), l));
        return base::Ok{};
    }

    // Of each layer whether it rotates queries and keys; nothing changes where Llama 4's list is
    // empty.
    base::Status read_rotating_layers(const char* key, std::vector<bool>& rotates) {
        const bool may_be_empty = config_.traits->chunk_positions > 0;
        if (may_be_empty && root_.present(key) && root_.child(key).value().empty())
            return base::Ok{};
        rotates.resize(static_cast<std::size_t>(config_.n_layers));
        return each_layer(key, "numbers",
                          [&](const JsonPlace& place, std::size_t l) -> base::Status {
                              TRY(const std::int64_t one, place.integer());
                              rotates[l] = one != 0;
                              return base::Ok{};
                          });
    }

    base::Status check_chunked_layers(const std::vector<bool>& chunked) {
        return each_layer(
            "layer_types", "names", [&](const JsonPlace& place, std::size_t l) -> base::Status {
                const char* expected = chunked[l] ? "chunked_attention" : "full_attention";
                TRY(const std::string type, place.text());
                if (type == expected) return base::Ok{};
                return place.error(fmt::format("\"{}\", as no_rope_layers says", expected));
            });
    }

    // Some files say a number where others say true.
    base::Status read_temperature() {
        const char* tuning = "attn_temperature_tuning";
        if (root_.present(tuning)) {
            const nlohmann::json& value = root_.child(tuning).value();
            const bool off = value.is_boolean() ? value == false : value == 0;
            if (off) return root_.child(tuning).error("true");
        }
        TRY(const std::int32_t length,
            root_.count_or("floor_scale", kMaxCount, config_.traits->temperature_length));
        TRY(const float scale, root_.positive_or("attn_scale", 0.1));
        set_count("attention.temperature_length", length);
        set("attention.temperature_scale", scale);
        return base::Ok{};
    }

    base::Status read_window() {
        if (config_.traits->chunk_positions > 0) return read_chunks();
        TRY(const bool used, root_.flag_or("use_sliding_window", !family_.window_is_opt_in));
        if (!used || !root_.present("sliding_window")) return base::Ok{};
        TRY(const std::int32_t window, root_.count("sliding_window", kMaxCount));
        set_count("attention.sliding_window", window);
        std::vector<bool> windowed;
        if (root_.present("layer_types")) {
            TRY_VOID(each_layer(
                "layer_types", "names", [&](const JsonPlace& place, std::size_t) -> base::Status {
                    TRY(const std::string type, place.text());
                    windowed.push_back(type == "sliding_attention");
                    if (windowed.back() || type == "full_attention") return base::Ok{};
                    return place.error("\"full_attention\" or \"sliding_attention\"");
                }));
        } else if (root_.present("sliding_window_pattern")) {
            TRY(const std::int32_t period,
                root_.count("sliding_window_pattern", limits::kMaxLayers));
            set_count("attention.sliding_window_pattern", period);
        } else if (family_.window_is_opt_in) {
            // Layers from max_window_layers on have the window.
            TRY(const std::int64_t first, root_.present("max_window_layers")
                                              ? root_.child("max_window_layers").integer()
                                              : base::Result<std::int64_t>(std::int64_t{0}));
            for (std::int32_t l = 0; l < config_.n_layers; ++l) windowed.push_back(l >= first);
        }
        if (!windowed.empty()) set("attention.sliding_window_pattern", windowed);
        config_.windowed = std::move(windowed);
        return base::Ok{};
    }

    base::Status read_token_ids() {
        if (root_.present("bos_token_id")) {
            TRY(config_.bos_token, root_.child("bos_token_id").integer());
        }
        TRY(config_.end_tokens, read_eos_ids(root_));
        return base::Ok{};
    }

    JsonPlace root_;
    const HfFamily& family_;
    GgufBuilder& metadata_;
    HfConfig config_;
    bool has_experts_ = false;  // beside the feed-forward of every layer
    std::int32_t context_ = 0;
    std::int32_t rope_dim_ = 0;
    float base_ = 10000.0F;
};

// Whether rows attend to those behind them. "vision" says so of images alone.
base::Result<bool> attends_both_ways(const JsonPlace& root) {
    const char* key = "use_bidirectional_attention";
    if (!root.present(key) || root.child(key).value() == "vision") return false;
    return root.flag_or(key, false);
}

}  // namespace

base::Result<std::vector<std::int64_t>> read_eos_ids(const JsonPlace& root) {
    std::vector<std::int64_t> ids;
    if (!root.present("eos_token_id")) return ids;
    const JsonPlace place = root.child("eos_token_id");
    if (!place.value().is_array()) {
        TRY(const std::int64_t id, place.integer());
        ids.push_back(id);
        return ids;
    }
    TRY(const std::size_t n, place.array_size());
    for (std::size_t i = 0; i < n; ++i) {
        TRY(const std::int64_t id, place.element(i).integer());
        ids.push_back(id);
    }
    return ids;
}

base::Result<HfConfig> read_hf_config(const std::string& text, const std::string& file,
                                      GgufBuilder& metadata) {
    TRY(const nlohmann::json document, spec::parse_json(text, file));
    const JsonPlace outer(document, file);
    JsonPlace root = outer;
    TRY_VOID(root.expect_object());
    TRY(JsonPlace place, root.member("model_type"));
    TRY(std::string type, place.text());
    // A model that sees images, too: its text model is read.
    const bool has_others = type == "gemma4" || type == "llama4";
    if (has_others) {
        TRY(root, root.member("text_config"));
        TRY_VOID(root.expect_object());
        TRY(place, root.member("model_type"));
        TRY(type, place.text());
    }
    if (is_hf_encoder(type)) return read_hf_encoder(root, type, metadata);
    TRY(const bool both_ways, attends_both_ways(root));
    std::vector<std::string_view> known;
    for (const HfFamily& family : hf_families()) {
        if (!family.both_ways) known.push_back(family.type);
        if (family.type != type || family.both_ways != both_ways) continue;
        metadata.set("general.architecture", std::string(family.architecture));
        TRY(HfConfig config, ConfigReader(root, family, metadata).read());
        if (family.experts != HfExperts::gpt_oss) {
            const bool in_text = !outer.present("quantization_config");
            TRY(config.quantisation, read_hf_quantisation(in_text ? root : outer));
        }
        if (has_others && type == "gemma4_text") config.prefix = "model.language_model.";
        if (has_others && type == "llama4_text") {
            config.prefix = "language_model.model.";
            config.head = "language_model.lm_head.weight";
        }
        return config;
    }
    if (both_ways && std::find(known.begin(), known.end(), type) != known.end())
        return root.child("use_bidirectional_attention").error("false in this family");
    for (const std::string_view encoder : hf_encoders()) known.push_back(encoder);
    return place.error(fmt::format("one of {}", fmt::join(known, ", ")));
}

}  // namespace helix::model
