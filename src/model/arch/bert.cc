#include <string_view>

#include <fmt/format.h>

#include "model/arch/decoder.h"
#include "model/arch/rank_head.h"
#include "model/limits.h"
#include "model/model_config.h"

// Encoders, which make embeddings: BERT (bge, E5, MiniLM) and RoBERTa, whose tensors and keys are
// the same in a file, XLM-RoBERTa (bge-m3, multilingual E5) among them; and nomic-bert, which has
// rope in the place of a table of positions, and SwiGLU; jina-bert-v2 ALiBi, both ways, and GeGLU;
// jina-bert-v3 is XLM-RoBERTa with rope. The adapters for tasks that it is published with are not
// applied: without a task it is the model of the base weights alone.
// Each sum of residuals is normed: x = norm(x + attention(x)), x = norm(x + feed-forward(x)).
// jina-bert-v2 of models for code norms queries and keys as a whole, and behind attention twice:
// x = norm_2(x + norm(x + attention(x))).
//
// In every second layer of nomic-bert-moe are experts; a row's are weighted by the softmax over
// all.
//
// modern-bert norms what blocks read, without biases, but for the first layer's attention: x = x +
// attention(norm(x)), x = x + feed-forward(norm(x)). Two of three layers have a window to both
// sides, and a rope of their own.
//
// Of BERT and RoBERTa there are cross-encoders, which read a query and a document as one text: the
// score is that of the first token's state x, sigmoid(w . tanh(D x + d) + b), D being BERT's
// pooler.
//
// Devlin and others: BERT: Pre-training of Deep Bidirectional Transformers, 2018. Warner and
// others: Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder, 2024. Sturua and others:
// jina-embeddings-v3: Multilingual Embeddings With Task LoRA, 2024.

namespace helix::model {

const DecoderTraits kBert{.name = "bert",
                          .qkv_bias = Presence::always,
                          .output_bias = true,
                          .input_norms = false,
                          .norm = NormKind::layer,
                          .activation = Activation::exact_gelu,
                          .encoder = true,
                          .position_table = true,
                          .may_rank = true,
                          .feed_forward_bias = true};

const DecoderTraits kNomicBert{.name = "nomic-bert",
                               .rope_pairs = RopePairs::halves,
                               .input_norms = false,
                               .fused_qkv = true,
                               .norm = NormKind::layer,
                               .encoder = true};

const DecoderTraits kJinaBertV2{.name = "jina-bert-v2",
                                .qkv_bias = Presence::always,
                                .output_bias = true,
                                .qk_norm = QkNorm::centred_projection,
                                .qk_norm_optional = true,
                                .input_norms = false,
                                .norm = NormKind::layer,
                                .activation = Activation::exact_geglu,
                                .encoder = true,
                                .alibi = true,
                                .down_bias = true,
                                .gate_optional = true};

const DecoderTraits kJinaBertV3{.name = "jina-bert-v3",
                                .rope_pairs = RopePairs::halves,
                                .qkv_bias = Presence::always,
                                .output_bias = true,
                                .input_norms = false,
                                .fused_qkv = true,
                                .norm = NormKind::layer,
                                .activation = Activation::exact_gelu,
                                .encoder = true,
                                .task_adapters = true,
                                .feed_forward_bias = true};

// Experts have BERT's feed-forward, without biases.
const DecoderTraits kNomicBertMoe{.name = "nomic-bert-moe",
                                  .rope_pairs = RopePairs::halves,
                                  .qkv_bias = Presence::always,
                                  .output_bias = true,
                                  .experts = Presence::always,
                                  .expert_width_key = "feed_forward_length",
                                  .input_norms = false,
                                  .fused_qkv = true,
                                  .alternate_experts = true,
                                  .normalises_expert_weights = false,
                                  .norm = NormKind::layer,
                                  .activation = Activation::exact_gelu,
                                  .encoder = true,
                                  .feed_forward_bias = true};

const DecoderTraits kModernBert{.name = "modern-bert",
                                .rope_pairs = RopePairs::halves,
                                .fused_qkv = true,
                                .fused_gate_up = true,
                                .full_attention_period = 3,
                                .full_attention_first = true,
                                .plain_windowed_rope = true,
                                .windowed_rope_base = 10000.0F,
                                .norm = NormKind::layer,
                                .activation = Activation::exact_geglu,
                                .encoder = true};

namespace {

// Whether the file is a cross-encoder's; what is neither that nor a plain encoder's is refused.
base::Result<bool> reads_pairs(const GgufFile& file, const DecoderTraits& traits) {
    const std::string causal_key = metadata_key(traits, "attention.causal");
    if (file.find(causal_key) != nullptr) {
        TRY(const bool causal, file.get_bool(causal_key));
        if (causal)
            return wrong_metadata(file, causal_key,
                                  "true, supported in this architecture is false");
    }
    const std::string pooling_key = metadata_key(traits, "pooling_type");
    TRY(const std::int32_t pooling, optional_int(file, pooling_key, 0, limits::kMaxContext, 0));
    const bool ranks = pooling == static_cast<std::int32_t>(spec::Pooling::rank);
    if (ranks && traits.may_rank) return true;
    if (ranks) {
        return wrong_metadata(file, pooling_key,
                              "4 (a cross-encoder, which ranks documents) is not supported in this "
                              "architecture");
    }
    for (const TensorInfo& tensor : file.tensors()) {
        if (!tensor.name.starts_with("cls")) continue;
        return base::invalid(fmt::format(
            "{}: tensor {}: a classifier's head, which a model of architecture {} has {}",
            file.label(), tensor.name, traits.name,
            traits.may_rank ? fmt::format("only with {} 4 (a cross-encoder)", pooling_key)
                            : "not: cross-encoders are not supported"));
    }
    return false;
}

base::Status read_pairs(const GgufFile& file, ModelConfig& config) {
    TRY(config.rank_head, read_pair_head(file, config));
    // RoBERTa's texts are all of the first type, though some have a table of two.
    const std::string model = "tokenizer.ggml.model";
    const bool word_pieces = file.find(model) != nullptr && file.get_string(model).ok() &&
                             *file.get_string(model) == "bert";
    if (config.n_token_types < 2 || !word_pieces) return base::Ok{};
    // So spelt in files.
    const char* key = "tokenizer.ggml.seperator_token_id";
    if (file.find(key) == nullptr) key = "tokenizer.ggml.eos_token_id";
    TRY(config.separator, expect_int(file, key, 0, std::int64_t{config.vocab} - 1));
    return base::Ok{};
}

// What a file's tensors say of jina-bert-v2. Files of newer converters have the gate in the tensor
// of what it multiplies: the rows of the gate are the first ones, but in models for code, whose
// tensor was published the other way round, the last.
void read_jina(const GgufFile& file, ModelConfig& config) {
    const auto has = [&](const char* name) { return file.find_tensor(name) != nullptr; };
    config.normed_twice = has("blk.0.attn_norm_2.weight");
    if (has("blk.0.ffn_gate.weight")) return;
    if (has("blk.0.ffn_up.bias")) {
        config.activation = Activation::exact_gelu;
        config.feed_forward_bias = true;
        config.down_bias = false;
        return;
    }
    config.fused_gate_up = true;
    config.up_before_gate = config.qk_norm != QkNorm::none;
}

// The rows of a table of hidden columns; 0 where there is no such tensor.
base::Result<std::int32_t> table_rows(const GgufFile& file, const char* name, std::int32_t hidden) {
    const TensorInfo* table = file.find_tensor(name);
    if (table == nullptr) return 0;
    const std::int64_t rows = table->shape.size() > 1 ? table->shape[1] : 1;
    if (table->shape.size() > 2 || table->shape[0] != hidden || rows > limits::kMaxContext ||
        table->type != TensorType::f32) {
        return base::invalid(
            fmt::format("{}: tensor {}: expected at most {} rows of {} elements of type f32",
                        file.label(), name, limits::kMaxContext, hidden));
    }
    return static_cast<std::int32_t>(rows);
}

// Two, behind the pooling.
base::Status read_dense_layers(const GgufFile& file, ModelConfig& config) {
    const TensorInfo* first = file.find_tensor(kFirstDense);
    if (first == nullptr) {
        return base::invalid(fmt::format(
            "{}: tensor {}: missing, the first of two dense layers behind the pooling; converters "
            "leave them out unless they are told otherwise, and their files' embeddings are not "
            "the model's",
            file.label(), kFirstDense));
    }
    const std::int64_t inner = first->rows();
    if (inner > limits::kMaxFeedForward) {
        return base::invalid(fmt::format("{}: tensor {}: {} rows, the limit is {}", file.label(),
                                         kFirstDense, inner, limits::kMaxFeedForward));
    }
    TRY_VOID(expect_tensor(file, kFirstDense, {config.hidden, inner}));
    TRY_VOID(expect_tensor(file, kSecondDense, {inner, config.hidden}));
    config.dense_inner = static_cast<std::int32_t>(inner);
    return base::Ok{};
}

// Of encoders that norm what enters the first layer, and whose blocks norm what they read.
base::Status read_prenorm(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    TRY_VOID(expect_tensor(file, kEmbeddingNorm, {config.hidden}));
    config.first_norm = file.find_tensor("blk.0.attn_norm.weight") != nullptr;
    const std::string key = metadata_key(traits, kHiddenActivation);
    if (file.find(key) == nullptr) return base::Ok{};
    TRY(const std::string activation, file.get_string(key));
    if (activation == "silu") config.activation = Activation::silu;
    if (activation == "silu" || activation == "gelu") return base::Ok{};
    return wrong_metadata(file, key,
                          fmt::format("\"{}\", supported are gelu and silu", activation));
}

}  // namespace

base::Status read_encoder(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    TRY(const bool pairs, reads_pairs(file, traits));
    if (config.has_output_norm()) {
        TRY_VOID(expect_tensor(file, "output_norm.weight", {config.hidden}));
    }
    if (traits.dense_embeddings) TRY_VOID(read_dense_layers(file, config));
    if (!config.embedding_norm) return base::Ok{};
    if (!config.sum_norms) return read_prenorm(file, traits, config);
    for (const char* name : {kEmbeddingNorm, kEmbeddingNormBias})
        TRY_VOID(expect_tensor(file, name, {config.hidden}));
    TRY(config.n_token_types, table_rows(file, kTokenTypeTable, config.hidden));
    if (pairs) TRY_VOID(read_pairs(file, config));
    if (traits.alibi) read_jina(file, config);
    if (!traits.position_table) return base::Ok{};
    TRY(config.n_positions, table_rows(file, kPositionTable, config.hidden));
    if (config.n_positions >= config.context_length) return base::Ok{};
    return wrong_metadata(file, metadata_key(traits, "context_length"),
                          fmt::format("{}, tensor {} has {} rows", config.context_length,
                                      kPositionTable, config.n_positions));
}

bool is_encoder_tensor(const ModelConfig& config, std::string_view name) {
    if (!config.encoder) return false;
    const bool of_head = name == kClassifierHead || name == kClassifierHeadBias ||
                         name == kClassifierDense || name == kClassifierDenseBias;
    if (of_head) return config.rank_head.of_pairs;
    if (config.has_output_norm()) {
        const bool dense = name == kFirstDense || name == kSecondDense;
        return name == "output_norm.weight" || (dense && config.dense_inner > 0) ||
               (name == kEmbeddingNorm && config.embedding_norm);
    }
    return name == kEmbeddingNorm || name == kEmbeddingNormBias || name == kTokenTypeTable ||
           (config.n_positions > 0 && name == kPositionTable);
}

}  // namespace helix::model
