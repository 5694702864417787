#include "model/synth.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/random.h"
#include "model/arch/decoder.h"
#include "model/arch/rank_head.h"
#include "model/file_type.h"
#include "model/gguf_writer.h"
#include "model/limits.h"
#include "model/model_config.h"
#include "model/rope_scaling.h"
#include "model/synth_tokenizers.h"
#include "model/synth_vocabulary.h"

namespace helix::model {
namespace {

constexpr std::uint64_t kBatchBytesPerThread = 4U << 20;

// A chat template for models without any training, which gives chat clients something to render.
constexpr char kChatTemplate[] =
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

// And one for rankers, whose words are few, so that much of a small context is left.
constexpr char kRankTemplate[] = "query: {query}\ntext: {document}\nanswer:";

// check_shape() has seen that there are such.
const DecoderTraits& traits_of(const SynthShape& shape) {
    const DecoderTraits* traits = find_traits(shape.architecture);
    CHECK(traits != nullptr);
    return *traits;
}

bool has_bias(const SynthShape& shape) {
    const Presence presence = traits_of(shape).qkv_bias;
    return presence == Presence::always || (presence == Presence::optional && shape.qkv_bias);
}

bool is_gated(const SynthShape& shape) {
    const DecoderTraits& traits = traits_of(shape);
    return traits.activation != Activation::squared_relu &&
           traits.activation != Activation::exact_gelu && (shape.gated || !traits.gate_optional);
}

bool has_qk_norm(const SynthShape& shape) {
    const DecoderTraits& traits = traits_of(shape);
    const bool weighted = traits.qk_norm != QkNorm::none && traits.qk_norm != QkNorm::unweighted;
    return weighted && (shape.qk_norm || !traits.qk_norm_optional);
}

struct SynthTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    float mean = 0;
    float deviation = 0;
};

float keeping(std::int64_t fan_in) {
    return 1.0F / std::sqrt(static_cast<float>(fan_in));
}

// Deviations keep the residual stream near one: matrices preserve the size of their input, and the
// two that add to the stream are smaller the more layers there are (GPT-2's rule).
class SynthTensors {
  public:
    explicit SynthTensors(const SynthShape& shape) : shape_(shape), traits_(traits_of(shape)) {}

    std::vector<SynthTensor> list() && {
        // A tied embedding is the head too, and must keep logits near one.
        const float embedding = shape_.tied_embeddings ? keeping(hidden_) : 1.0F;
        tensors_.push_back({"token_embd.weight", {hidden_, shape_.vocab}, 0, embedding});
        if (has_embedding_norm()) add_encoder_input();
        if (shape_.layer_input > 0) add_layer_inputs();
        for (layer_ = 0; layer_ < shape_.n_layers; ++layer_) {
            add_attention();
            add_feed_forward();
            if (shape_.layer_input > 0) add_layer_input();
        }
        if (!has_sum_norms()) add_head();
        if (shape_.dense_inner > 0) add_dense_layers();
        if (shape_.reranks) add_rank_head();
        add_rope_factors();
        return std::move(tensors_);
    }

  private:
    bool has_embedding_norm() const { return traits_.encoder && !traits_.norms_as_decoder; }
    bool has_sum_norms() const { return traits_.encoder && !traits_.input_norms; }

    // Of an encoder the norm alone.
    void add_head() {
        tensors_.push_back({"output_norm.weight", {hidden_}, 1, 0.1F});
        if (traits_.norm_bias) tensors_.push_back({"output_norm.bias", {hidden_}, 0, 0.1F});
        if (!shape_.tied_embeddings && !traits_.encoder) {
            tensors_.push_back({"output.weight", {hidden_, shape_.vocab}, 0, keeping(hidden_)});
        }
    }

    void add_dense_layers() {
        const std::int64_t inner = shape_.dense_inner;
        tensors_.push_back({kFirstDense, {hidden_, inner}, 0, keeping(hidden_)});
        tensors_.push_back({kSecondDense, {inner, hidden_}, 0, keeping(inner)});
    }

    void add_rank_head() {
        const float dev = keeping(hidden_);
        if (!traits_.encoder) {
            tensors_.push_back({kClassifierHead, {hidden_, 2}, 0, dev});
            return;
        }
        tensors_.push_back({kClassifierDense, {hidden_, hidden_}, 0, dev});
        tensors_.push_back({kClassifierDenseBias, {hidden_}, 0, 0.1F});
        tensors_.push_back({kClassifierHead, {hidden_, 1}, 0, 2 * dev});
        tensors_.push_back({kClassifierHeadBias, {1}, 0, 0.3F});
    }

    void add_encoder_input() {
        if (traits_.position_table)
            tensors_.push_back({kPositionTable, {hidden_, shape_.context_length}, 0, 0.5F});
        tensors_.push_back({kEmbeddingNorm, {hidden_}, 1, 0.1F});
        if (!has_sum_norms()) return;
        tensors_.push_back({kTokenTypeTable, {hidden_, shape_.token_types()}, 0, 0.3F});
        tensors_.push_back({kEmbeddingNormBias, {hidden_}, 0, 0.1F});
    }

    void add_layer_inputs() {
        const std::int64_t all = std::int64_t{shape_.layer_input} * shape_.n_layers;
        tensors_.push_back({kLayerInputTable, {all, shape_.vocab}, 0, keeping(shape_.layer_input)});
        tensors_.push_back({kLayerInputProjection, {hidden_, all}, 0, 1.0F});
        tensors_.push_back({kLayerInputNorm, {shape_.layer_input}, 1, 0.1F});
    }
    void add_layer_input() {
        add("inp_gate.weight", {hidden_, shape_.layer_input}, 0, keeping(hidden_));
        add("proj.weight", {shape_.layer_input, hidden_}, 0, keeping(shape_.layer_input));
        add("post_norm.weight", {hidden_}, added_, 0.1F * added_);
    }

    void add(const char* name, std::vector<std::int64_t> dims, float mean, float dev) {
        tensors_.push_back({fmt::format("blk.{}.{}", layer_, name), std::move(dims), mean, dev});
    }
    // Of the sums of residuals, where they are normed.
    void add_sum_norm(const char* name) {
        if (!has_sum_norms()) return;
        add(fmt::format("{}.weight", name).c_str(), {hidden_}, 1, 0.1F);
        add(fmt::format("{}.bias", name).c_str(), {hidden_}, 0, 0.1F);
    }
    // Where what is added to the stream is normed, these weights are its size.
    void add_output_norm(const char* name) {
        if (traits_.output_norms) add(name, {hidden_}, added_, 0.1F * added_);
    }

    // These norm queries and keys, and their files have gate and up in one tensor.
    bool is_jina_of_code() const { return traits_.alibi && has_qk_norm(shape_); }

    void add_attention() {
        const bool own_heads = traits_.windowed_heads && shape_.is_windowed(layer_);
        const std::int64_t head = own_heads ? shape_.windowed_head_dim : shape_.head_size();
        const std::int64_t q = head * shape_.n_heads;
        const std::int64_t kv = head * (own_heads ? shape_.windowed_kv_heads : shape_.n_kv_heads);
        const bool has_keys = !shape_.shares_kv(layer_);
        const bool has_values = has_keys && (!shape_.keys_are_values || shape_.is_windowed(layer_));
        // Where embeddings are normed, the first rows have just been.
        if (traits_.input_norms && (layer_ > 0 || !has_embedding_norm()))
            add("attn_norm.weight", {hidden_}, 1, 0.1F);
        if (traits_.norm_bias) add("attn_norm.bias", {hidden_}, 0, 0.1F);
        if (traits_.fused_qkv) {
            add("attn_qkv.weight", {hidden_, q + 2 * kv}, 0, keeping(hidden_));
        } else {
            add("attn_q.weight", {hidden_, q}, 0, keeping(hidden_));
            if (has_keys) add("attn_k.weight", {hidden_, kv}, 0, keeping(hidden_));
            if (has_values) add("attn_v.weight", {hidden_, kv}, 0, keeping(hidden_));
        }
        if (has_bias(shape_) && traits_.fused_qkv) {
            add("attn_qkv.bias", {q + 2 * kv}, 0, 0.5F);
        } else if (has_bias(shape_)) {
            add("attn_q.bias", {q}, 0, 0.5F);
            add("attn_k.bias", {kv}, 0, 0.5F);
            add("attn_v.bias", {kv}, 0, 0.5F);
        }
        if (traits_.output_bias) add("attn_output.bias", {hidden_}, 0, 0.1F);
        if (traits_.attention_sinks) add("attn_sinks.weight", {shape_.n_heads}, 0.5F, 1.0F);
        if (has_qk_norm(shape_)) {
            const bool centred = traits_.qk_norm == QkNorm::centred_projection;
            const bool whole = centred || traits_.qk_norm == QkNorm::projection;
            const bool each = traits_.qk_norm == QkNorm::centred;
            std::vector<std::int64_t> of_q{whole ? q : head}, of_k{whole ? kv : head};
            if (each) of_q.push_back(shape_.n_heads), of_k.push_back(shape_.n_kv_heads);
            add("attn_q_norm.weight", std::move(of_q), 1, 0.1F);
            if (has_keys) add("attn_k_norm.weight", std::move(of_k), 1, 0.1F);
            if (centred) add("attn_q_norm.bias", {q}, 0, 0.3F);
            if (centred) add("attn_k_norm.bias", {kv}, 0, 0.3F);
        }
        add("attn_output.weight", {q, hidden_}, 0, keeping(q) * added_);
        add_output_norm("post_attention_norm.weight");
        add_sum_norm("attn_output_norm");
        if (is_jina_of_code()) add_sum_norm("attn_norm_2");
        if (traits_.layer_scales) add("layer_output_scale.weight", {1}, 0.9F, 0.05F);
    }

    void add_experts() {
        const std::int64_t ffn = shape_.ffn;
        const std::int64_t experts = shape_.n_experts;
        const std::int64_t shared = shape_.shared_ffn;
        add("ffn_gate_inp.weight", {hidden_, experts}, 0, 2.0F * keeping(hidden_));
        if (shape_.selection_bias) add("exp_probs_b.bias", {experts}, 0, 0.1F);
        if (traits_.dense_beside_experts) {
            add("ffn_gate_up_exps.weight", {hidden_, 2 * ffn, experts}, 0, keeping(hidden_));
            add("ffn_gate_inp.scale", {hidden_}, std::sqrt(static_cast<float>(hidden_)), 1.0F);
            add("ffn_down_exps.scale", {experts}, 1, 0.2F);
            add("pre_ffw_norm_2.weight", {hidden_}, 1, 0.1F);
            add("post_ffw_norm_1.weight", {hidden_}, 1, 0.1F);
            add("post_ffw_norm_2.weight", {hidden_}, 1, 0.1F);
        } else {
            if (is_gated(shape_))
                add("ffn_gate_exps.weight", {hidden_, ffn, experts}, 0, keeping(hidden_));
            add("ffn_up_exps.weight", {hidden_, ffn, experts}, 0, keeping(hidden_));
        }
        add("ffn_down_exps.weight", {ffn, hidden_, experts}, 0, keeping(ffn) * added_);
        if (traits_.expert_biases) {
            add("ffn_gate_inp.bias", {experts}, 0, 0.5F);
            add("ffn_gate_exps.bias", {ffn, experts}, 0, 0.3F);
            add("ffn_up_exps.bias", {ffn, experts}, 0, 0.3F);
            add("ffn_down_exps.bias", {hidden_, experts}, 0, 0.3F * added_);
        }
        if (shared == 0) return;
        add("ffn_gate_shexp.weight", {hidden_, shared}, 0, keeping(hidden_));
        add("ffn_up_shexp.weight", {hidden_, shared}, 0, keeping(hidden_));
        add("ffn_down_shexp.weight", {shared, hidden_}, 0, keeping(shared) * added_);
        if (traits_.shared_gate)
            add("ffn_gate_inp_shexp.weight", {hidden_}, 0, 2.0F * keeping(hidden_));
    }

    void add_feed_forward() {
        const bool has_experts = shape_.has_experts(layer_);
        const std::int64_t ffn = shape_.dense_width(layer_);
        if (traits_.input_norms && !traits_.parallel_blocks)
            add(std::string(traits_.feed_forward_norm).c_str(), {hidden_}, 1, 0.1F);
        if (traits_.norm_bias) add("ffn_norm.bias", {hidden_}, 0, 0.1F);
        if (has_experts) add_experts();
        if (has_experts && !traits_.dense_beside_experts) return add_sum_norm("layer_output_norm");
        const bool gated = is_gated(shape_);
        const bool fused = traits_.fused_gate_up || (is_jina_of_code() && gated);
        if (!fused && gated) add("ffn_gate.weight", {hidden_, ffn}, 0, keeping(hidden_));
        add("ffn_up.weight", {hidden_, fused ? 2 * ffn : ffn}, 0, keeping(hidden_));
        add("ffn_down.weight", {ffn, hidden_}, 0, keeping(ffn) * added_);
        if (traits_.feed_forward_bias || (traits_.gate_optional && !gated)) {
            add("ffn_up.bias", {ffn}, 0, 0.3F);
            add("ffn_down.bias", {hidden_}, 0, 0.1F);
        }
        if (traits_.down_bias && gated) add("ffn_down.bias", {hidden_}, 0, 0.1F);
        add_output_norm("post_ffw_norm.weight");
        add_sum_norm("layer_output_norm");
    }

    void add_rope_factors() {
        const std::string& type = shape_.rope_scaling.type;
        const std::int64_t pairs = shape_.rope_size() / 2;
        if (type == "llama3" || type == "proportional")
            tensors_.push_back({kRopeFactors, {pairs}, 0, 0});
        if (type != "longrope") return;
        tensors_.push_back({kLongRopeFactors, {pairs}, shape_.rope_scaling.factor, 0.2F});
        tensors_.push_back({kShortRopeFactors, {pairs}, 1.1F, 0.05F});
    }

    const SynthShape& shape_;
    const DecoderTraits& traits_;
    const std::int64_t hidden_ = shape_.hidden;
    const float added_ = 1.0F / std::sqrt(2.0F * static_cast<float>(shape_.n_layers));
    std::int32_t layer_ = 0;
    std::vector<SynthTensor> tensors_;
};

bool is_router(const SynthTensor& tensor) {
    return tensor.name.ends_with("ffn_gate_inp.weight");
}

// Where matrices of the type have factors, so do these: their elements are brought to a size that
// the format has numbers for. An embedding has none, since it is looked up.
std::vector<SynthTensor> with_factors(TensorType quant, std::vector<SynthTensor> tensors) {
    constexpr float kDeviation = 32;
    std::vector<SynthTensor> all;
    for (SynthTensor& tensor : tensors) {
        const std::string factor = factor_tensor(quant, tensor.name);
        const bool has_factor = !factor.empty() && !is_vector(tensor.name, tensor.shape.size()) &&
                                !is_router(tensor) && tensor.name != "token_embd.weight" &&
                                tensor.name != kLayerInputTable;
        const float mean = tensor.deviation / kDeviation;
        if (has_factor) tensor.deviation = kDeviation;
        const std::int64_t count = tensor.shape.size() > 2 ? tensor.shape[2] : 1;
        all.push_back(std::move(tensor));
        if (has_factor) all.push_back({factor, {count}, mean, 0.2F * mean});
    }
    return all;
}

void set_scales(GgufBuilder& builder, const SynthShape& shape) {
    const DecoderTraits& traits = traits_of(shape);
    const auto set = [&](bool there, const char* rest, float value) {
        if (there && value > 0) builder.set(metadata_key(traits, rest), value);
    };
    set(traits.scales, "embedding_scale", shape.embedding_scale);
    set(traits.scales, "residual_scale", shape.residual_scale);
    set(traits.scales, "attention.scale", shape.attention_scale);
    set(traits.logit_scale != DecoderTraits::LogitScale::none, "logit_scale", shape.logit_scale);
    set(traits.attention_softcap >= 0, "attn_logit_softcapping", shape.attention_softcap);
    set(traits.logit_softcap >= 0, "final_logit_softcapping", shape.logit_softcap);
}

void set_experts(GgufBuilder& builder, const SynthShape& shape) {
    const auto set = [&](const char* rest, std::int32_t value) {
        builder.set(metadata_key(traits_of(shape), rest), static_cast<std::uint32_t>(value));
    };
    const bool sigmoid = traits_of(shape).gating == Gating::sigmoid;
    set("expert_count", shape.n_experts);
    set("expert_used_count", shape.n_experts_used);
    set("expert_feed_forward_length", shape.ffn);
    if (shape.n_dense_layers > 0) set("leading_dense_block_count", shape.n_dense_layers);
    if (traits_of(shape).alternate_experts) set("moe_every_n_layers", shape.expert_period);
    if (traits_of(shape).expert_period) set("interleave_moe_layer_step", shape.expert_period);
    if (shape.shared_ffn > 0) {
        set("expert_shared_feed_forward_length", shape.shared_ffn);
        if (shape.shared_ffn % shape.ffn == 0)
            set("expert_shared_count", shape.shared_ffn / shape.ffn);
    }
    if (shape.n_skipped_layers > 0) set("nextn_predict_layers", shape.n_skipped_layers);
    // Llama 4's files do not say it.
    if (sigmoid && !traits_of(shape).weighted_expert_inputs) set("expert_gating_func", 2);
    if (shape.architecture == "glm4moe")  // the others' files leave it to the architecture
        builder.set(metadata_key(traits_of(shape), "expert_weights_norm"), true);
    if (shape.n_expert_groups > 1) {
        set("expert_group_count", shape.n_expert_groups);
        set("expert_group_used_count", shape.n_expert_groups_used);
    }
    if (shape.expert_weight_scale != 1.0F) {
        builder.set(metadata_key(traits_of(shape), "expert_weights_scale"),
                    shape.expert_weight_scale);
    }
}

// Where layers with the window have heads of their own, they and the window are told of each layer.
void set_kv_heads(GgufBuilder& builder, const SynthShape& shape) {
    const DecoderTraits& traits = traits_of(shape);
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    const auto count = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    if (!traits.windowed_heads) {
        builder.set(key("attention.head_count_kv"), count(shape.n_kv_heads));
        return;
    }
    std::vector<std::int32_t> kv_heads;
    std::vector<bool> windowed;
    for (std::int32_t layer = 0; layer < shape.n_layers; ++layer) {
        windowed.push_back(shape.is_windowed(layer));
        kv_heads.push_back(windowed.back() ? shape.windowed_kv_heads : shape.n_kv_heads);
    }
    builder.set(key("attention.head_count_kv"), std::move(kv_heads));
    builder.set(key("attention.sliding_window_pattern"), std::move(windowed));
    builder.set(key("attention.key_length_swa"), count(shape.windowed_head_dim));
    builder.set(key("attention.value_length_swa"), count(shape.windowed_head_dim));
    builder.set(key("rope.dimension_count_swa"), count(shape.windowed_head_dim));
    builder.set(key("rope.freq_base_swa"), traits.windowed_rope_base);
    // Files say it of models without these mechanisms, too.
    builder.set(key("embedding_length_per_layer_input"), count(shape.layer_input));
    builder.set(key("attention.shared_kv_layers"), count(shape.n_shared_kv_layers));
}

void set_width(GgufBuilder& builder, const SynthShape& shape) {
    const std::string key = metadata_key(traits_of(shape), "feed_forward_length");
    if (shape.shared_kv_ffn == 0) {
        const std::int32_t width = shape.dense_ffn > 0 ? shape.dense_ffn : shape.ffn;
        return builder.set(key, static_cast<std::uint32_t>(width));
    }
    std::vector<std::int32_t> widths;
    for (std::int32_t layer = 0; layer < shape.n_layers; ++layer)
        widths.push_back(shape.dense_width(layer));
    builder.set(key, std::move(widths));
}

// Published files say nothing of all this.
void set_chunks(GgufBuilder& builder, const SynthShape& shape) {
    const DecoderTraits& traits = traits_of(shape);
    const auto set = [&](std::int32_t value, const char* rest) {
        if (value > 0) builder.set(metadata_key(traits, rest), static_cast<std::uint32_t>(value));
    };
    set(shape.sliding_window, kAttentionChunkSize);
    set(shape.temperature_length, "attention.temperature_length");
    if (!shape.qk_norm) builder.set(metadata_key(traits, kUnweightedQkNorm), false);
}

void set_encoder(GgufBuilder& builder, const SynthShape& shape) {
    const auto key = [&](const char* rest) { return metadata_key(traits_of(shape), rest); };
    builder.set(key("attention.causal"), false);
    const auto count = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    const DecoderTraits& traits = traits_of(shape);
    if (!traits.input_norms) {
        builder.set("tokenizer.ggml.token_type_count", count(shape.token_types()));
    } else if (!traits.norms_as_decoder) {
        builder.set(key("rope.freq_base_swa"), traits.windowed_rope_base);
        builder.set(key(kHiddenActivation), std::string("gelu"));
    }
    if (shape.dense_inner == 0) return;
    builder.set(key("dense_2_feat_in"), count(shape.hidden));
    builder.set(key("dense_2_feat_out"), count(shape.dense_inner));
    builder.set(key("dense_3_feat_in"), count(shape.dense_inner));
    builder.set(key("dense_3_feat_out"), count(shape.hidden));
}

// check_shape() has seen that there is such a one, if any. nullptr: the architecture says it.
const SynthTokenizer* tokenizer_of(const SynthShape& shape) {
    return shape.tokenizer.empty() ? nullptr : find_synth_tokenizer(shape.tokenizer);
}

void set_vocabulary(GgufBuilder& builder, const SynthShape& shape, std::uint64_t seed) {
    const SynthTokenizer* tokenizer = tokenizer_of(shape);
    if (tokenizer != nullptr) return set_synth_tokenizer(*tokenizer, shape.vocab, seed, builder);
    const bool encoder = traits_of(shape).encoder;
    const bool by_merges = !encoder || traits_of(shape).norms_as_decoder;
    if (!by_merges && !shape.unigrams)
        return set_synth_word_pieces(make_synth_word_pieces(shape.vocab, seed), builder);
    SynthVocabulary vocabulary = make_synth_vocabulary(shape.vocab, seed);
    if (!by_merges) {
        // So that a word costs less than its letters.
        for (float& score : vocabulary.scores) score = -4.0F + score / 1024.0F;
    }
    builder.set("tokenizer.ggml.model", by_merges ? "llama" : "t5");
    builder.set("tokenizer.ggml.tokens", std::move(vocabulary.tokens));
    builder.set("tokenizer.ggml.scores", std::move(vocabulary.scores));
    builder.set("tokenizer.ggml.token_type", std::move(vocabulary.types));
    builder.set("tokenizer.ggml.bos_token_id", vocabulary.bos);
    builder.set("tokenizer.ggml.eos_token_id", vocabulary.eos);
    builder.set("tokenizer.ggml.unknown_token_id", vocabulary.unknown);
    builder.set("tokenizer.ggml.add_bos_token", true);
    builder.set("tokenizer.ggml.add_eos_token", encoder);
    builder.set("tokenizer.ggml.add_space_prefix", true);
    if (!encoder) builder.set("tokenizer.chat_template", kChatTemplate);
}

void set_pooling(GgufBuilder& builder, const SynthShape& shape) {
    if (!shape.reranks && shape.pooling == spec::Pooling::none) return;
    const auto pooling = shape.reranks ? spec::Pooling::rank : shape.pooling;
    const DecoderTraits& traits = traits_of(shape);
    builder.set(metadata_key(traits, "pooling_type"), static_cast<std::uint32_t>(pooling));
    if (!shape.reranks || traits.encoder) return;
    builder.set(metadata_key(traits, "classifier.output_labels"),
                std::vector<std::string>{"yes", "no"});
    const SynthTokenizer* tokenizer = tokenizer_of(shape);
    const bool own = tokenizer != nullptr && !tokenizer->rerank_template.empty();
    builder.set("tokenizer.chat_template.rerank",
                own ? std::string(tokenizer->rerank_template) : std::string(kRankTemplate));
}

void set_metadata(GgufBuilder& builder, const SynthShape& shape, TensorType quant,
                  std::uint64_t seed) {
    const auto count = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    const std::string& architecture = shape.architecture;
    const auto key = [&](const char* rest) { return fmt::format("{}.{}", architecture, rest); };
    builder.set("general.architecture", architecture);
    builder.set("general.name",
                fmt::format("synth-{}-{}-{}", shape.name, tensor_type_info(quant)->name, seed));
    builder.set("general.file_type", file_type(quant));
    builder.set("general.quantization_version", std::uint32_t{2});
    builder.set(key("vocab_size"), count(shape.vocab));
    builder.set(key("context_length"), count(shape.context_length));
    builder.set(key("embedding_length"), count(shape.hidden));
    builder.set(key("block_count"), count(shape.n_layers + shape.n_skipped_layers));
    set_width(builder, shape);
    if (!traits_of(shape).position_table && !traits_of(shape).alibi) {
        builder.set(key("rope.dimension_count"), count(shape.rope_size()));
        builder.set(key("rope.freq_base"), shape.rope_base);
    }
    builder.set(key("attention.head_count"), count(shape.n_heads));
    set_kv_heads(builder, shape);
    const bool centred = traits_of(shape).norm == NormKind::layer;
    builder.set(key(centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
                1e-5F);
    set_scales(builder, shape);
    if (shape.head_dim > 0) {
        builder.set(key("attention.key_length"), count(shape.head_dim));
        builder.set(key("attention.value_length"), count(shape.head_dim));
    }
    if (traits_of(shape).chunk_positions > 0) {
        set_chunks(builder, shape);
    } else if (shape.sliding_window > 0) {
        builder.set(key("attention.sliding_window"), count(shape.sliding_window));
        if (shape.full_attention_period > 0 && !traits_of(shape).windowed_heads) {
            builder.set(key("attention.sliding_window_pattern"),
                        count(shape.full_attention_period));
        }
    }
    if (shape.n_experts > 0) set_experts(builder, shape);
    set_pooling(builder, shape);
    const SynthRopeScaling& scaling = shape.rope_scaling;
    if (scaling.type == "linear" || scaling.type == "yarn") {
        builder.set(key("rope.scaling.type"), scaling.type);
        builder.set(key("rope.scaling.factor"), scaling.factor);
        builder.set(key("rope.scaling.original_context_length"), count(scaling.trained_context));
    } else if (scaling.type == "longrope") {
        builder.set(key("rope.scaling.original_context_length"), count(scaling.trained_context));
        builder.set(key("rope.scaling.attn_factor"), 1.1F);
    }

    if (traits_of(shape).encoder) set_encoder(builder, shape);
    set_vocabulary(builder, shape, seed);
}

// A bell-shaped number with deviation one: four 16-bit uniforms, summed exactly in integers, so
// that it is the same on every machine.
float bell(std::uint64_t bits) {
    const std::uint64_t sum =
        (bits & 0xffffU) + ((bits >> 16) & 0xffffU) + ((bits >> 32) & 0xffffU) + (bits >> 48);
    constexpr float kInverseDeviation = 1.7320508F / 65536.0F;
    return (static_cast<float>(sum) - 131070.0F) * kInverseDeviation;
}

// The quantised rows [begin, end) of a tensor.
struct RowFiller {
    const SynthTensor& tensor;
    TensorType type;
    std::uint64_t key;
    std::size_t row_length;
    std::size_t row_bytes;

    void fill(std::uint64_t begin, std::uint64_t end, std::byte* out) const {
        std::vector<float> row(row_length);
        for (std::uint64_t r = begin; r < end; ++r, out += row_bytes) {
            for (std::size_t i = 0; i < row_length; ++i) {
                row[i] =
                    tensor.mean + tensor.deviation * bell(base::hash_pair(key, r * row_length + i));
            }
            quantize_row(type, row, out);
        }
    }

    void fill_on(unsigned threads, std::uint64_t begin, std::uint64_t end, std::byte* out) const {
        std::vector<std::thread> pool;
        const std::uint64_t each = (end - begin + threads - 1) / threads;
        for (std::uint64_t from = begin; from < end; from += each) {
            const std::uint64_t to = std::min(end, from + each);
            std::byte* at = out + (from - begin) * row_bytes;
            if (to == end) {
                fill(from, to, at);
            } else {
                pool.emplace_back([this, from, to, at] { fill(from, to, at); });
            }
        }
        for (std::thread& thread : pool) thread.join();
    }
};

bool may_share(const SynthShape& shape, const DecoderTraits& traits) {
    if (shape.shared_kv_ffn > 0 && shape.n_shared_kv_layers == 0) return false;
    const bool shares = shape.n_shared_kv_layers > 0 || shape.layer_input > 0;
    return !shares || (traits.layer_inputs && shape.n_shared_kv_layers < shape.n_layers);
}

base::Status check_shape(const SynthShape& shape, TensorType quant) {
    const TensorTypeInfo& type = *tensor_type_info(quant);
    const auto wrong = [&](const std::string& text) {
        return base::invalid(fmt::format("shape {}: {}", shape.name, text));
    };
    const DecoderTraits* traits = find_traits(shape.architecture);
    if (traits == nullptr) {
        return wrong(fmt::format("architecture \"{}\" is not supported", shape.architecture));
    }
    const bool wants_experts = traits->experts == Presence::always;
    const bool may_have_experts = traits->experts != Presence::never;
    if (shape.n_experts < (wants_experts ? 1 : 0) || (shape.n_experts > 0 && !may_have_experts) ||
        shape.n_experts_used > shape.n_experts ||
        (shape.n_experts_used < 1 && shape.n_experts > 0)) {
        return wrong(fmt::format("{} of {} experts do not fit architecture {}",
                                 shape.n_experts_used, shape.n_experts, shape.architecture));
    }
    const bool mixes = shape.n_dense_layers > 0 || shape.shared_ffn > 0 || shape.selection_bias ||
                       shape.n_skipped_layers > 0;
    if ((mixes && shape.n_experts == 0) || shape.n_dense_layers >= shape.n_layers ||
        ((shape.n_dense_layers > 0 || shape.expert_period > 1) && shape.dense_ffn < 1) ||
        shape.expert_period < 1 || shape.expert_period > shape.n_layers ||
        (shape.expert_period > 1 && !traits->expert_period && !traits->alternate_experts) ||
        (traits->alternate_experts && (shape.expert_period != 2 || shape.dense_ffn != shape.ffn)) ||
        ((traits->shared_expert || traits->shared_gate) && shape.shared_ffn < 1) ||
        (shape.n_experts > 0 && traits->dense_beside_experts && shape.dense_ffn < 1) ||
        (shape.selection_bias && traits->gating != Gating::sigmoid)) {
        return wrong("dense layers, a shared expert or a bias where there are no such experts");
    }
    if (shape.n_expert_groups != 1 &&
        (shape.n_expert_groups < 1 || shape.n_expert_groups > limits::kMaxExpertGroups ||
         shape.n_expert_groups_used < 1 || shape.n_expert_groups_used > shape.n_expert_groups ||
         !traits->expert_groups || !shape.selection_bias ||
         !problem_with_expert_groups(shape.n_experts, shape.n_experts_used, shape.n_expert_groups,
                                     shape.n_expert_groups_used)
              .empty())) {
        return wrong("groups of experts that the architecture or their number does not allow");
    }
    if (traits->windowed_heads && (shape.windowed_kv_heads < 1 || shape.windowed_head_dim < 2 ||
                                   shape.windowed_head_dim % 2 != 0 || shape.sliding_window < 1 ||
                                   shape.n_heads % shape.windowed_kv_heads != 0)) {
        return wrong("expected a window, and KV heads of its layers that divide the heads");
    }
    if (traits->dense_embeddings != (shape.dense_inner > 0))
        return wrong("dense layers where embeddings go through none, or none where they do");
    if (!may_share(shape, *traits))
        return wrong("inputs of layers or shared keys and values where there are no such layers");
    const std::string& scaling = shape.rope_scaling.type;
    const bool known_scaling = scaling.empty() || scaling == "linear" || scaling == "yarn" ||
                               (scaling == "proportional" && traits->windowed_heads) ||
                               scaling == (traits->longrope ? "longrope" : "llama3");
    if (!known_scaling || shape.rope_scaling.factor <= 0 ||
        (!scaling.empty() && shape.rope_scaling.trained_context < 1)) {
        return wrong(
            "rope scaling: expected linear, yarn, llama3 or longrope with a factor and a trained "
            "context above zero");
    }
    for (const std::int32_t value : {shape.n_layers, shape.hidden, shape.n_heads, shape.n_kv_heads,
                                     shape.ffn, shape.context_length}) {
        if (value < 1) return wrong("every size must be at least 1");
    }
    const bool uneven = shape.head_dim == 0 && shape.hidden % shape.n_heads != 0;
    if (uneven || shape.n_heads % shape.n_kv_heads != 0 || shape.rope_size() < 2 ||
        shape.rope_size() % 2 != 0 || shape.rope_size() > shape.head_size()) {
        return wrong(
            "expected heads that divide the hidden size into even parts, and KV heads that "
            "divide the heads");
    }
    const SynthTokenizer* tokenizer = tokenizer_of(shape);
    if (tokenizer == nullptr && !shape.tokenizer.empty())
        return wrong(fmt::format("tokenizer \"{}\" is unknown", shape.tokenizer));
    const std::int32_t least =
        tokenizer == nullptr ? kMinSynthVocabulary : min_synth_vocabulary(*tokenizer);
    if (shape.vocab < least)
        return wrong(fmt::format("a vocabulary of {}, expected at least {}", shape.vocab, least));
    for (const std::int32_t row :
         {shape.hidden, shape.ffn, shape.dense_ffn, shape.shared_ffn, shape.layer_input,
          shape.shared_kv_ffn, shape.dense_inner, shape.windowed_head_dim * shape.n_heads,
          shape.head_size() * shape.n_heads}) {
        if (row % type.block_size == 0) continue;
        return wrong(
            fmt::format("rows of {} elements, {} needs a multiple of {}; the shape \"small\" has "
                        "that",
                        row, type.name, type.block_size));
    }
    return base::Ok{};
}

std::vector<float> rope_factors_of(const SynthShape& shape) {
    const SynthRopeScaling& scaling = shape.rope_scaling;
    if (scaling.type == "proportional")
        return proportional_rope_factors(shape.rope_size(), scaling.factor);
    return llama3_rope_factors(
        {shape.rope_base, shape.rope_size(), scaling.factor, 1.0F, 4.0F, scaling.trained_context});
}

base::Status write_tensor(GgufOutput& out, const RowFiller& rows, std::uint64_t n_rows,
                          unsigned threads, std::uint64_t total, std::uint64_t& done,
                          const SynthProgress& progress) {
    const std::uint64_t step =
        std::max<std::uint64_t>(1, kBatchBytesPerThread * threads / rows.row_bytes);
    std::vector<std::byte> batch(std::min(step, n_rows) * rows.row_bytes);
    for (std::uint64_t begin = 0; begin < n_rows; begin += step) {
        const std::uint64_t end = std::min(n_rows, begin + step);
        rows.fill_on(threads, begin, end, batch.data());
        const std::uint64_t bytes = (end - begin) * rows.row_bytes;
        TRY_VOID(out.append(std::span(batch).first(bytes)));
        done += bytes;
        if (progress) progress(done, total);
    }
    return base::Ok{};
}

}  // namespace

base::Status synth_model(const SynthShape& shape, TensorType quant, const SynthOptions& options,
                         const SynthProgress& progress) {
    TRY_VOID(check_shape(shape, quant));
    const std::vector<SynthTensor> tensors = with_factors(quant, SynthTensors(shape).list());
    GgufBuilder builder;
    set_metadata(builder, shape, quant, options.seed);
    std::uint64_t total = 0;
    for (const SynthTensor& tensor : tensors) {
        // A router is not quantised, as converters leave it too, so that its choice does not depend
        // on rounding.
        const bool floats = is_vector(tensor.name, tensor.shape.size());
        const TensorType type = floats || is_router(tensor) ? TensorType::f32 : quant;
        builder.add_tensor(tensor.name, type, tensor.shape);
        total += builder.tensors().back().bytes;
    }
    TRY(const auto out, GgufOutput::create(options.path, builder));
    const unsigned threads =
        options.threads > 0 ? options.threads : static_cast<unsigned>(base::usable_threads());
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorInfo& info = builder.tensors()[i];
        if (info.name == kRopeFactors) {
            const std::vector<float> factors = rope_factors_of(shape);
            TRY_VOID(out->append(std::as_bytes(std::span(factors))));
            done += info.bytes;
            continue;
        }
        const auto n_rows = static_cast<std::uint64_t>(info.rows());
        const std::uint64_t name_key = base::hash128(std::as_bytes(std::span(info.name))).low;
        const RowFiller rows{tensors[i], info.type, base::hash_pair(options.seed, name_key),
                             static_cast<std::size_t>(info.row_length()), info.bytes / n_rows};
        TRY_VOID(write_tensor(*out, rows, n_rows, threads, total, done, progress));
    }
    return out->finish();
}

base::Status synth_model(const SynthOptions& options, const SynthProgress& progress) {
    const TensorType* quant = tensor_type_by_name(options.quant);
    if (quant == nullptr) {
        return base::invalid(fmt::format("quantisation \"{}\" is unknown; known: {}", options.quant,
                                         tensor_type_names()));
    }
    if (options.wider < 1 || options.wider > 64) {
        return base::invalid(
            fmt::format("{} times as wide: expected 1 to 64 times", options.wider));
    }
    std::vector<std::string_view> names;
    for (const std::vector<SynthShape>* shapes : {&synth_shapes(), &synth_likes()}) {
        for (const SynthShape& shape : *shapes) {
            if (shape.name == options.shape)
                return synth_model(widened(shape, options.wider), *quant, options, progress);
            names.push_back(shape.name);
        }
    }
    return base::invalid(
        fmt::format("shape \"{}\" is unknown; known: {}", options.shape, fmt::join(names, ", ")));
}

}  // namespace helix::model
