#include "model/hf/hf_encoder.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "model/arch/decoder.h"
#include "model/arch/rank_head.h"
#include "model/limits.h"
#include "spec/pooling.h"

namespace helix::model {
namespace {

using spec::JsonPlace;

constexpr std::string_view kModern = "modernbert";
constexpr std::string_view kEncoderTypes[] = {"bert", "roberta", "xlm-roberta", "nomic_bert",
                                              kModern};

// Classes whose tensors have the names that we know: of models, of those that were trained to fill
// gaps (or have adapters), and of cross-encoders; "" where we read none.
struct EncoderClasses {
    std::string_view kind;
    std::string_view model;
    std::string_view other = {};
    std::string_view pairs = {};
};
// A jina-bert-v2 says that it is a bert, a jina-bert-v3 that it is an xlm-roberta.
constexpr std::string_view kJina = "jina-bert-v2";
constexpr std::string_view kJinaV3 = "jina-bert-v3";
constexpr EncoderClasses kClasses[] = {
    {"bert", "BertModel", "", "BertForSequenceClassification"},
    {"roberta", "RobertaModel", "", "RobertaForSequenceClassification"},
    {"xlm-roberta", "XLMRobertaModel", "", "XLMRobertaForSequenceClassification"},
    {"nomic_bert", "NomicBertModel"},
    {kJina, "JinaBertModel", "JinaBertForMaskedLM"},
    {kJinaV3, "XLMRobertaModel", "XLMRobertaLoRA"},
    {kModern, "ModernBertModel", "ModernBertForMaskedLM"},
};

const EncoderClasses& classes_of(std::string_view kind) {
    for (const EncoderClasses& one : kClasses) {
        if (one.kind == kind) return one;
    }
    CHECK(false);
}

// The row of kClasses: what the model type says, but of jina-bert-v2 and jina-bert-v3.
base::Result<std::string_view> kind_of(const JsonPlace& root, std::string_view model_type) {
    constexpr const char* kPositions = "position_embedding_type";
    const bool may_differ = model_type == "bert" || model_type == "xlm-roberta";
    if (!may_differ || !root.present(kPositions)) return model_type;
    TRY(const std::string positions, root.child(kPositions).text());
    if (model_type == "bert" && positions == "alibi") return kJina;
    return model_type == "xlm-roberta" && positions == "rotary" ? kJinaV3 : model_type;
}

// Whether it is a cross-encoder's.
base::Result<bool> ranks_pairs(const JsonPlace& root, std::string_view kind) {
    const EncoderClasses& known = classes_of(kind);
    if (!root.present("architectures")) return false;
    const JsonPlace classes = root.child("architectures");
    TRY(const std::size_t n, classes.array_size());
    for (std::size_t i = 0; i < n; ++i) {
        TRY(const std::string name, classes.element(i).text());
        if (name == known.model || (!known.other.empty() && name == known.other)) return false;
        if (!known.pairs.empty() && name == known.pairs) return true;
    }
    std::string expected = fmt::format("[\"{}\"]", known.model);
    for (const std::string_view other : {known.other, known.pairs}) {
        if (!other.empty()) expected += fmt::format(" or [\"{}\"]", other);
    }
    return classes.error(expected);
}

// A cross-encoder has one score; a classifier of several labels has none that ranks.
base::Status expect_one_label(const JsonPlace& root) {
    TRY(const JsonPlace labels, root.member("id2label"));
    TRY_VOID(labels.expect_object());
    if (labels.value().size() == 1) return base::Ok{};
    return labels.error(
        fmt::format("one label, as a cross-encoder has; there are {}", labels.value().size()));
}

// A key must have this value, where it is there.
base::Status expect_flag(const JsonPlace& root, const char* key, bool expected) {
    TRY(const bool value, root.flag_or(key, expected));
    if (value == expected) return base::Ok{};
    return root.child(key).error(expected ? "true" : "false");
}
base::Status expect_text(const JsonPlace& root, const char* key, const std::string& expected) {
    if (!root.present(key)) return base::Ok{};
    TRY(const std::string value, root.child(key).text());
    if (value == expected) return base::Ok{};
    return root.child(key).error(fmt::format("\"{}\"", expected));
}

base::Status expect_null(const JsonPlace& root, const char* key) {
    if (!root.present(key)) return base::Ok{};
    return root.child(key).error("null");
}

class EncoderReader {
  public:
    // kind: of kClasses.
    EncoderReader(const JsonPlace& root, std::string_view kind, GgufBuilder& metadata)
        : root_(root),
          nomic_(kind == "nomic_bert"),
          jina_(kind == kJina),
          jina_v3_(kind == kJinaV3),
          modern_(kind == kModern),
          metadata_(metadata) {
        shifted_ = kind == "roberta" || kind == "xlm-roberta";
        config_.architecture = nomic_     ? "nomic-bert"
                               : jina_    ? kJina
                               : jina_v3_ ? kJinaV3
                               : modern_  ? "modern-bert"
                                          : "bert";
        config_.traits = find_traits(config_.architecture);
        CHECK(config_.traits != nullptr);
    }

    // of_pairs: it is a cross-encoder's.
    base::Result<HfConfig> read(bool of_pairs) {
        metadata_.set("general.architecture", config_.architecture);
        config_.prefix = !of_pairs ? "" : shifted_ ? "roberta." : "bert.";
        config_.ranks_pairs = of_pairs;
        if (of_pairs) {
            TRY_VOID(expect_one_label(root_));
            set_count("pooling_type", static_cast<std::int32_t>(spec::Pooling::rank));
        }
        TRY_VOID(nomic_ ? refuse_of_nomic() : modern_ ? refuse_of_modern() : refuse_of_bert());
        if (jina_) TRY_VOID(read_gates());
        TRY_VOID(read_sizes());
        TRY_VOID(nomic_             ? read_rope()
                 : jina_v3_         ? read_jina_v3()
                 : jina_ || modern_ ? read_context()
                                    : read_positions());
        if (modern_) TRY_VOID(read_modern());
        const char* epsilon_key = nomic_    ? "layer_norm_epsilon"
                                  : modern_ ? "norm_eps"
                                            : "layer_norm_eps";
        TRY(const float epsilon, root_.positive_or(epsilon_key, modern_ ? 1e-5 : 1e-12));
        set("attention.layer_norm_epsilon", epsilon);
        set("attention.causal", false);
        TRY(const HfQuantisation quantisation, read_hf_quantisation(root_));
        if (quantisation.method != HfQuantMethod::none)
            return root_.child("quantization_config").complaint("not supported of an encoder");
        return std::move(config_);
    }

  private:
    void set(const char* rest, GgufValue value) {
        metadata_.set(metadata_key(*config_.traits, rest), std::move(value));
    }
    void set_count(const char* rest, std::int32_t value) {
        set(rest, static_cast<std::uint32_t>(value));
    }

    base::Status refuse_of_bert() {
        TRY_VOID(expect_text(root_, "hidden_act", "gelu"));
        const char* positions = jina_ ? "alibi" : jina_v3_ ? "rotary" : "absolute";
        TRY_VOID(expect_text(root_, "position_embedding_type", positions));
        TRY_VOID(expect_flag(root_, "is_decoder", false));
        return expect_flag(root_, "add_cross_attention", false);
    }

    // Of jina-bert-v2: gates with GELU, or none.
    base::Status read_gates() {
        constexpr const char* kType = "feed_forward_type";
        config_.gated = false;
        if (!root_.present(kType)) return base::Ok{};
        TRY(const std::string type, root_.child(kType).text());
        config_.gated = type == "geglu";
        if (config_.gated || type == "original") return base::Ok{};
        return root_.child(kType).error("\"geglu\" or \"original\"");
    }

    base::Status refuse_experts() {
        if (!root_.present("num_experts")) return base::Ok{};
        TRY(const std::int64_t experts, root_.child("num_experts").integer());
        if (experts == 0) return base::Ok{};
        return root_.child("num_experts")
            .error("0: experts of an encoder are read from GGUF files alone");
    }

    base::Status refuse_of_nomic() {
        TRY_VOID(refuse_experts());
        TRY_VOID(expect_text(root_, "activation_function", "swiglu"));
        for (const char* key :
             {"prenorm", "causal", "parallel_block", "use_rms_norm", "qkv_proj_bias",
              "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_interleaved"})
            TRY_VOID(expect_flag(root_, key, false));
        TRY_VOID(expect_null(root_, "rotary_emb_scale_base"));
        TRY(const float part, root_.positive_or("rotary_emb_fraction", 1));
        if (part != 1.0F) return root_.child("rotary_emb_fraction").error("1");
        return base::Ok{};
    }

    base::Status refuse_of_modern() {
        for (const char* key : {"norm_bias", "attention_bias", "mlp_bias"})
            TRY_VOID(expect_flag(root_, key, false));
        for (const char* key : {"layer_types", "rope_parameters", "rope_scaling"}) {
            if (root_.present(key))
                return root_.child(key).error(
                    "null: known are global_attn_every_n_layers, global_rope_theta and "
                    "local_rope_theta");
        }
        return base::Ok{};
    }

    // Windows, bases of rope, gates, and the tokens around a text.
    base::Status read_modern() {
        constexpr const char* kActivation = "hidden_activation";
        std::string activation = "gelu";
        if (root_.present(kActivation)) {
            TRY(activation, root_.child(kActivation).text());
        }
        if (activation != "gelu" && activation != "silu")
            return root_.child(kActivation).error("\"gelu\" or \"silu\"");
        set(kHiddenActivation, activation);
        TRY(const std::int32_t window, root_.count_or("local_attention", limits::kMaxContext, 128));
        TRY(const std::int32_t period,
            root_.count_or("global_attn_every_n_layers", limits::kMaxLayers, 3));
        TRY(const float base, root_.positive_or("global_rope_theta", 160000));
        constexpr const char* kLocalBase = "local_rope_theta";
        // null: that of the other layers.
        TRY(const float local_base,
            root_.positive_or(kLocalBase,
                              root_.has(kLocalBase) ? static_cast<double>(base) : 10000));
        set_count("attention.sliding_window", window);
        set_count("attention.sliding_window_pattern", period);
        set("rope.freq_base", base);
        set("rope.freq_base_swa", local_base);
        TRY(config_.bos_token, token_of("bos_token_id", "cls_token_id"));
        TRY(const std::int64_t end, token_of("eos_token_id", "sep_token_id"));
        if (end >= 0) config_.end_tokens = {end};
        return base::Ok{};
    }

    // -1: neither is there.
    base::Result<std::int64_t> token_of(const char* key, const char* other) const {
        if (!root_.present(key)) key = other;
        if (!root_.present(key)) return std::int64_t{-1};
        return root_.child(key).integer();
    }

    base::Status read_sizes() {
        TRY(config_.n_layers,
            root_.count(nomic_ ? "n_layer" : "num_hidden_layers", limits::kMaxLayers));
        TRY(config_.hidden, root_.count(nomic_ ? "n_embd" : "hidden_size", limits::kMaxHidden));
        TRY(config_.ffn,
            root_.count(nomic_ ? "n_inner" : "intermediate_size", limits::kMaxFeedForward));
        const char* heads = nomic_ ? "n_head" : "num_attention_heads";
        TRY(config_.n_heads, root_.count(heads, limits::kMaxHeads));
        if (config_.hidden % config_.n_heads != 0)
            return root_.child(heads).error(
                fmt::format("a divisor of the {} of a row", config_.hidden));
        config_.n_kv_heads = config_.n_heads;
        config_.head_dim = config_.hidden / config_.n_heads;
        TRY(config_.vocab, root_.count("vocab_size", limits::kMaxVocabulary));
        if (!modern_) {
            TRY(config_.n_token_types, root_.count_or("type_vocab_size", limits::kMaxContext, 2));
        }
        set_count("block_count", config_.n_layers);
        set_count("embedding_length", config_.hidden);
        set_count("feed_forward_length", config_.ffn);
        set_count("attention.head_count", config_.n_heads);
        set_count("vocab_size", config_.vocab);
        if (!modern_)
            metadata_.set("tokenizer.ggml.token_type_count",
                          static_cast<std::uint32_t>(config_.n_token_types));
        return base::Ok{};
    }

    // Where there is no table of positions.
    base::Status read_context() {
        TRY(const std::int32_t context,
            root_.count("max_position_embeddings", limits::kMaxContext));
        set_count("context_length", context);
        return base::Ok{};
    }

    // RoBERTa's positions begin behind that of its padding.
    base::Result<std::int32_t> first_position(std::int32_t n_positions) const {
        constexpr const char* kPadding = "pad_token_id";
        std::int64_t padding = 1;
        if (root_.present(kPadding)) {
            TRY(padding, root_.child(kPadding).integer());
        }
        if (padding < 0 || padding + 1 >= n_positions)
            return root_.child(kPadding).error(
                fmt::format("less than the {} positions", n_positions));
        return static_cast<std::int32_t>(padding) + 1;
    }

    // Positions of the table that there is or, of jina-embeddings-v3, would be; those before
    // first_position are not of a text.
    base::Status read_positions() {
        TRY(const std::int32_t positions,
            root_.count("max_position_embeddings", limits::kMaxContext));
        std::int32_t first = 0;
        if (shifted_ || jina_v3_) {
            TRY(first, first_position(positions));
        }
        set_count("context_length", positions - first);
        if (jina_v3_) return base::Ok{};
        config_.n_positions = positions;
        config_.first_position = first;
        return base::Ok{};
    }

    // Rope of the whole head, and as many positions as RoBERTa's table would have for a text.
    base::Status read_jina_v3() {
        TRY_VOID(expect_flag(root_, "rotary_emb_interleaved", false));
        TRY_VOID(expect_null(root_, "rotary_emb_scale_base"));
        TRY_VOID(expect_null(root_, "truncate_dim"));
        TRY_VOID(expect_text(root_, "emb_pooler", "mean"));
        constexpr const char* kTurned = "rotary_emb_dim";
        TRY(const std::int32_t turned,
            root_.count_or(kTurned, limits::kMaxHeadDim, config_.head_dim));
        if (turned != config_.head_dim)
            return root_.child(kTurned).error(
                fmt::format("the {} dimensions of a head", config_.head_dim));
        TRY(const float base, root_.positive_or("rotary_emb_base", 10000));
        set("rope.freq_base", base);
        return read_positions();
    }

    // Beyond the positions that it was trained with rope would be scaled by a text's length.
    base::Status read_rope() {
        TRY(std::int32_t context, root_.count("n_positions", limits::kMaxContext));
        TRY(const std::int32_t trained,
            root_.count_or("max_trained_positions", limits::kMaxContext, context));
        context = std::min(context, trained);
        TRY(const float base, root_.positive_or("rotary_emb_base", 10000));
        set("rope.freq_base", base);
        set_count("context_length", context);
        return base::Ok{};
    }

    JsonPlace root_;
    bool nomic_, jina_, jina_v3_, modern_;
    bool shifted_ = false;
    GgufBuilder& metadata_;
    HfConfig config_;
};

// How names end of matrices that adapters change, and of the two factors of all adapters together.
constexpr const char* kAdaptedMatrix = ".parametrizations.weight.original";
constexpr std::string_view kAdapterFactors[] = {".parametrizations.weight.0.lora_A",
                                                ".parametrizations.weight.0.lora_B"};

class EncoderTensors {
  public:
    explicit EncoderTensors(const HfConfig& config)
        : config_(config),
          nomic_(config.architecture == "nomic-bert"),
          jina_(config.traits->alibi),
          jina_v3_(config.traits->task_adapters) {}

    std::vector<HfTensor> list() && {
        if (config_.traits->input_norms) {
            list_modern();
            return std::move(tensors_);
        }
        const std::int64_t hidden = config_.hidden;
        const std::string& prefix = config_.prefix;
        matrix("token_embd.weight", weight_of(prefix + "embeddings.word_embeddings"), config_.vocab,
               hidden);
        if (config_.n_positions > 0) {
            tensors_.push_back({.name = kPositionTable,
                                .shape = {hidden, config_.n_positions - config_.first_position},
                                .sources = {prefix + "embeddings.position_embeddings.weight"},
                                .source_shape = {config_.n_positions, hidden},
                                .first_row = config_.first_position,
                                .keep_float = true});
        }
        matrix(kTokenTypeTable, weight_of(prefix + "embeddings.token_type_embeddings"),
               config_.n_token_types, hidden);
        tensors_.back().keep_float = true;
        const bool flash = nomic_ || jina_v3_;  // their names are those of FlashAttention's blocks
        norm("token_embd_norm", prefix + (flash ? "emb_ln" : "embeddings.LayerNorm"));
        for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
            ours_ = fmt::format("blk.{}.", layer);
            theirs_ = fmt::format("{}encoder.{}.{}.", prefix, flash ? "layers" : "layer", layer);
            nomic_     ? nomic_layer()
            : jina_v3_ ? jina_v3_layer()
            : jina_    ? jina_layer()
                       : bert_layer();
        }
        if (config_.ranks_pairs) add_pair_head();
        return std::move(tensors_);
    }

  private:
    void matrix(const std::string& name, const std::string& source, std::int64_t rows,
                std::int64_t cols) {
        tensors_.push_back({.name = name,
                            .shape = {cols, rows},
                            .sources = {source},
                            .source_shape = {rows, cols}});
    }
    void vector(const std::string& name, const std::string& source, std::int64_t size) {
        tensors_.push_back({.name = name,
                            .shape = {size},
                            .sources = {source},
                            .source_shape = {size},
                            .keep_float = true});
    }
    void norm(const std::string& name, const std::string& source) {
        vector(name + ".weight", source + ".weight", config_.hidden);
        vector(name + ".bias", source + ".bias", config_.hidden);
    }
    // What a module's matrix is called. Where there are adapters, it is the one that they change.
    std::string weight_of(const std::string& module) const {
        return module + (config_.has_adapters ? kAdaptedMatrix : ".weight");
    }
    // With a bias.
    void linear(const char* name, const char* source, std::int64_t rows, std::int64_t cols) {
        matrix(ours_ + name + ".weight", weight_of(theirs_ + source), rows, cols);
        vector(ours_ + name + ".bias", theirs_ + source + ".bias", rows);
    }

    // Of ModernBertModel, whose norms have no biases.
    void list_modern() {
        const std::string& prefix = config_.prefix;
        const std::int64_t hidden = config_.hidden;
        matrix("token_embd.weight", prefix + "embeddings.tok_embeddings.weight", config_.vocab,
               hidden);
        vector(kEmbeddingNorm, prefix + "embeddings.norm.weight", hidden);
        for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
            ours_ = fmt::format("blk.{}.", layer);
            theirs_ = fmt::format("{}layers.{}.", prefix, layer);
            if (layer > 0) vector(ours_ + "attn_norm.weight", theirs_ + "attn_norm.weight", hidden);
            matrix(ours_ + "attn_qkv.weight", theirs_ + "attn.Wqkv.weight", 3 * hidden, hidden);
            matrix(ours_ + "attn_output.weight", theirs_ + "attn.Wo.weight", hidden, hidden);
            vector(ours_ + "ffn_norm.weight", theirs_ + "mlp_norm.weight", hidden);
            matrix(ours_ + "ffn_up.weight", theirs_ + "mlp.Wi.weight",
                   std::int64_t{2} * config_.ffn, hidden);
            matrix(ours_ + "ffn_down.weight", theirs_ + "mlp.Wo.weight", hidden, config_.ffn);
        }
        vector("output_norm.weight", prefix + "final_norm.weight", hidden);
    }

    // RoBERTa's class brings a dense layer of its own, BERT's takes the model's pooler.
    void add_pair_head() {
        const bool roberta = config_.prefix == "roberta.";
        const std::int64_t hidden = config_.hidden;
        const std::string dense = roberta ? "classifier.dense" : config_.prefix + "pooler.dense";
        const std::string out = roberta ? "classifier.out_proj" : "classifier";
        matrix(kClassifierDense, dense + ".weight", hidden, hidden);
        vector(kClassifierDenseBias, dense + ".bias", hidden);
        matrix(kClassifierHead, out + ".weight", 1, hidden);
        vector(kClassifierHeadBias, out + ".bias", 1);
    }

    void bert_layer() {
        bert_attention();
        bert_feed_forward();
    }

    void bert_attention() {
        const std::int64_t hidden = config_.hidden;
        linear("attn_q", "attention.self.query", hidden, hidden);
        linear("attn_k", "attention.self.key", hidden, hidden);
        linear("attn_v", "attention.self.value", hidden, hidden);
        linear("attn_output", "attention.output.dense", hidden, hidden);
        norm(ours_ + "attn_output_norm", theirs_ + "attention.output.LayerNorm");
    }

    void bert_feed_forward() {
        const std::int64_t hidden = config_.hidden;
        linear("ffn_up", "intermediate.dense", config_.ffn, hidden);
        linear("ffn_down", "output.dense", hidden, config_.ffn);
        norm(ours_ + "layer_output_norm", theirs_ + "output.LayerNorm");
    }

    // Models for code name what they share with others by other names, too.
    void jina_layer() {
        bert_attention();
        const bool of_code = config_.qk_norm;
        if (of_code) {
            norm(ours_ + "attn_q_norm", theirs_ + "attention.self.layer_norm_q");
            norm(ours_ + "attn_k_norm", theirs_ + "attention.self.layer_norm_k");
            norm(ours_ + "attn_norm_2", theirs_ + "layer_norm_1");
        }
        if (!config_.gated) return bert_feed_forward();
        matrix(ours_ + "ffn_up.weight",
               theirs_ + (of_code ? "mlp.up_gated_layer.weight" : "mlp.gated_layers.weight"),
               std::int64_t{2} * config_.ffn, config_.hidden);
        linear("ffn_down", of_code ? "mlp.down_layer" : "mlp.wo", config_.hidden, config_.ffn);
        norm(ours_ + "layer_output_norm", theirs_ + (of_code ? "layer_norm_2" : "mlp.layernorm"));
    }

    void jina_v3_layer() {
        const std::int64_t hidden = config_.hidden;
        linear("attn_qkv", "mixer.Wqkv", 3 * hidden, hidden);
        linear("attn_output", "mixer.out_proj", hidden, hidden);
        norm(ours_ + "attn_output_norm", theirs_ + "norm1");
        linear("ffn_up", "mlp.fc1", config_.ffn, hidden);
        linear("ffn_down", "mlp.fc2", hidden, config_.ffn);
        norm(ours_ + "layer_output_norm", theirs_ + "norm2");
    }

    void nomic_layer() {
        const std::int64_t hidden = config_.hidden;
        const std::int64_t ffn = config_.ffn;
        matrix(ours_ + "attn_qkv.weight", theirs_ + "attn.Wqkv.weight", 3 * hidden, hidden);
        matrix(ours_ + "attn_output.weight", theirs_ + "attn.out_proj.weight", hidden, hidden);
        norm(ours_ + "attn_output_norm", theirs_ + "norm1");
        matrix(ours_ + "ffn_up.weight", theirs_ + "mlp.fc11.weight", ffn, hidden);
        matrix(ours_ + "ffn_gate.weight", theirs_ + "mlp.fc12.weight", ffn, hidden);
        matrix(ours_ + "ffn_down.weight", theirs_ + "mlp.fc2.weight", hidden, ffn);
        norm(ours_ + "layer_output_norm", theirs_ + "norm2");
    }

    const HfConfig& config_;
    bool nomic_, jina_, jina_v3_;
    std::string ours_, theirs_;  // what names of a layer's tensors begin with
    std::vector<HfTensor> tensors_;
};

}  // namespace

std::span<const std::string_view> hf_encoders() {
    return kEncoderTypes;
}

bool is_hf_encoder(std::string_view model_type) {
    return std::find(std::begin(kEncoderTypes), std::end(kEncoderTypes), model_type) !=
           std::end(kEncoderTypes);
}

base::Result<HfConfig> read_hf_encoder(const JsonPlace& root, std::string_view model_type,
                                       GgufBuilder& metadata) {
    TRY(const std::string_view kind, kind_of(root, model_type));
    TRY(const bool of_pairs, ranks_pairs(root, kind));
    return EncoderReader(root, kind, metadata).read(of_pairs);
}

void see_encoder_tensors(const std::function<bool(const std::string&)>& has, HfConfig& config) {
    if (config.traits->input_norms && has("model.embeddings.tok_embeddings.weight"))
        config.prefix = "model.";
    if (config.traits->task_adapters) {
        for (const char* prefix : {"", "roberta."}) {
            const std::string words = prefix + std::string("embeddings.word_embeddings");
            const bool adapted = has(words + kAdaptedMatrix);
            if (!adapted && !has(words + ".weight")) continue;
            config.prefix = prefix;
            config.has_adapters = adapted;
        }
    }
    if (!config.traits->alibi) return;
    if (has("bert.embeddings.word_embeddings.weight")) config.prefix = "bert.";
    config.qk_norm = has(config.prefix + "encoder.layer.0.attention.self.layer_norm_q.weight");
}

std::vector<HfTensor> hf_encoder_tensors(const HfConfig& config) {
    return EncoderTensors(config).list();
}

// What is made of the first token's state for a training goal, and numbers that are counted.
bool is_spare_encoder_tensor(const HfConfig& config, std::string_view name) {
    for (const std::string_view factor : kAdapterFactors) {
        if (config.has_adapters && name.ends_with(factor)) return true;
    }
    if (config.traits->alibi && name.starts_with("cls.predictions.")) return true;
    if (config.traits->input_norms)
        return name.starts_with("head.") || name.starts_with("decoder.") ||
               name.ends_with(".rotary_emb.inv_freq");
    if (name.starts_with(config.prefix)) name.remove_prefix(config.prefix.size());
    return name.starts_with("pooler.") || name == "embeddings.position_ids" ||
           name == "embeddings.token_type_ids" || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace helix::model
