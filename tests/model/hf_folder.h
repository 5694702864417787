#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/gguf.h"
#include "model/model_config.h"

// Writes a GGUF file's model as a folder of safetensors, the way Hugging Face publishes models:
// written from the published formats, not from what reads them in src.

namespace helix::model::test_support {

using Json = nlohmann::json;

// How published tokenizer.json files cut text into words: those of LLaMA 3, of o200k and of Qwen 2.
inline constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kO200kSplit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The pre_tokenizer of a tokenizer.json, by the name that a GGUF file has for it.
inline Json pre_tokenizer_named(const std::string& name) {
    static const std::map<std::string, const char*> kSplits{
        {"smaug-bpe", kLlama3Split}, {"dbrx", kLlama3Split},  {"glm4", kLlama3Split},
        {"gpt-4o", kO200kSplit},     {"llama4", kO200kSplit}, {"minimax-m2", kO200kSplit},
        {"qwen2", kQwen2Split}};
    Json steps = Json::array();
    const auto split = kSplits.find(name);
    if (split != kSplits.end()) {
        steps.push_back({{"type", "Split"},
                         {"pattern", {{"Regex", split->second}}},
                         {"behavior", "Isolated"},
                         {"invert", false}});
    } else if (name == "starcoder" || name == "refact" || name == "command-r") {
        steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    }
    steps.push_back({{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"use_regex", split == kSplits.end()}});
    return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

inline void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

// One safetensors file, from tensors in the order they are added.
class SafetensorsWriter {
  public:
    void add(const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape,
             const std::string& bytes) {
        header_[name] = {{"dtype", dtype},
                         {"shape", shape},
                         {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
        data_ += bytes;
    }
    Json& header() { return header_; }
    bool empty() const { return header_.empty(); }
    // The file's bytes. header may have been changed.
    std::string take() const { return image(header_.dump(), data_); }
    static std::string image(const std::string& header, const std::string& data) {
        std::string length(8, '\0');
        for (std::size_t i = 0; i < 8; ++i)
            length[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
        return length + header + data;
    }

  private:
    Json header_ = Json::object();
    std::string data_;
};

inline std::string text_of(const GgufFile& file, const TensorInfo& tensor) {
    const auto data = file.read(tensor).value();
    return {reinterpret_cast<const char*>(data.data()), data.size()};
}

// Undoes the order of llama's queries and keys: row 2i of a head was i, row 2i + 1 was i + half.
inline std::string uninterleave(const std::string& rows, std::size_t n_rows, std::size_t heads) {
    const std::size_t bytes = rows.size() / n_rows;
    const std::size_t head = n_rows / heads;
    std::string out(rows.size(), '\0');
    for (std::size_t row = 0; row < n_rows; ++row) {
        const std::size_t in_head = row % head;
        const std::size_t to = row - in_head + in_head % 2 * (head / 2) + in_head / 2;
        out.replace(to * bytes, bytes, rows, row * bytes, bytes);
    }
    return out;
}

class HfFolderWriter {
  public:
    // file has f32, f16 or bf16 matrices. With n_files > 1 an index is written, too.
    HfFolderWriter(const GgufFile& file, std::string folder, std::size_t n_files = 1)
        : file_(file), folder_(std::move(folder)), parts_(n_files) {
        auto read = read_model_config(file);
        CHECK(read.ok());
        config_ = *read;
        std::filesystem::create_directories(folder_);
    }

    // The file with the experts of a gpt-oss, in MXFP4.
    const GgufFile* experts = nullptr;
    // As a model that sees images, too: its text model has a part of config.json and a prefix of
    // its own, and there are tensors besides.
    bool sees_images = false;
    // Writes a matrix of f32 [rows, cols] of a layer in another way, with put(); false: it did not.
    using Put =
        std::function<void(const std::string& name, const char* dtype,
                           const std::vector<std::int64_t>& shape, const std::string& bytes)>;
    std::function<bool(const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::string& bytes, const Put& put)>
        quantise;
    // The folder's config.json, which may be changed before write().
    Json config = Json::object();
    Json tokenizer = Json::object();
    Json tokenizer_config = Json::object();

    // Sets the parameters of LLaMA 3.1's scaling, which a GGUF file does not say.
    void set_llama3_scaling(float factor, std::int32_t trained_context) {
        config["rope_scaling"] = {{"rope_type", "llama3"},
                                  {"factor", factor},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", trained_context}};
    }

    void write() {
        fill_config();
        fill_tokenizer();
        write_tensors();
        if (makes_embeddings()) write_modules();
        if (sees_images) {
            config = {{"model_type", type_ == "llama4_text" ? "llama4" : "gemma4"},
                      {"text_config", config}};
        }
        write_file(folder_ + "/config.json", config.dump(1));
        write_file(folder_ + "/tokenizer.json", tokenizer.dump());
        write_file(folder_ + "/tokenizer_config.json", tokenizer_config.dump(1));
    }

  private:
    void set(const char* key, Json value) {
        if (!config.contains(key)) config[key] = std::move(value);
    }

    void fill_config() {
        const ModelConfig& c = config_;
        const bool has_experts = c.n_experts > 0;
        const bool llama = c.architecture == "llama";
        type_ = llama                                               ? (has_experts            ? "mixtral"
                                                                       : c.sliding_window > 0 ? "mistral"
                                                                                              : "llama")
                : c.architecture == "qwen2moe"                      ? "qwen2_moe"
                : c.architecture == "qwen3moe"                      ? "qwen3_moe"
                : c.architecture == "olmo2" && c.sliding_window > 0 ? "olmo3"
                : c.architecture == "granitemoe"                    ? "granitemoeshared"
                : c.architecture == "glm4moe"                       ? "glm4_moe"
                : c.architecture == "minimax-m2"                    ? "minimax_m2"
                : c.architecture == "gpt-oss"                       ? "gpt_oss"
                : c.architecture == "command-r"                     ? "cohere"
                : c.architecture == "gemma3"                        ? "gemma3_text"
                : c.architecture == "gemma-embedding"               ? "gemma3_text"
                : c.architecture == "gemma4"                        ? "gemma4_text"
                : c.architecture == "llama4"                        ? "llama4_text"
                                                                    : c.architecture;
        set("model_type", type_);
        set("num_hidden_layers", c.n_layers);
        set("hidden_size", c.hidden);
        set("num_attention_heads", c.n_heads);
        set("num_key_value_heads", c.n_kv_heads);
        if (c.head_dim * c.n_heads != c.hidden) set("head_dim", c.head_dim);
        set("intermediate_size", c.n_dense_layers > 0 ? c.dense_ffn : c.ffn);
        set("vocab_size", c.vocab);
        set("max_position_embeddings", c.context_length);
        set("rms_norm_eps", c.norm_epsilon);
        set("rope_theta", c.rope_base);
        set("tie_word_embeddings", c.tied_embeddings);
        set("hidden_act", "silu");
        set("sliding_window", c.sliding_window > 0 ? Json(c.sliding_window) : Json());
        if (!llama && c.sliding_window > 0) set("use_sliding_window", true);
        if (type_.starts_with("glm4")) set("attention_bias", c.qkv_bias);
        if (type_.starts_with("glm4") || type_ == "phi3" || type_ == "nemotron") {
            set("partial_rotary_factor",
                static_cast<double>(c.rope_dim) / static_cast<double>(c.head_dim));
        }
        if (type_ == "cohere") set("use_qk_norm", c.qk_norm != QkNorm::none);
        if (type_ == "smollm3") {
            Json turned = Json::array();
            for (std::int32_t l = 0; l < c.n_layers; ++l) turned.push_back(l % 4 == 3 ? 0 : 1);
            set("no_rope_layers", turned);
        }
        if (type_ == "phi3") fill_longrope();
        fill_scales();
        if (has_experts) fill_experts();
        if (type_ == "gemma4_text") fill_gemma4();
        if (makes_embeddings()) {
            set("architectures", {"Gemma3TextModel"});
            set("use_bidirectional_attention", true);
            set("rope_local_base_freq", c.windowed_rope_base);
        }
        if (type_ == "llama4_text") fill_llama4();
        const std::string scaling = c.architecture + ".rope.scaling.";
        if (file_.find(scaling + "type") != nullptr) {
            Json block{{"type", *file_.get_string(scaling + "type")},
                       {"factor", *file_.get_float(scaling + "factor")}};
            block["original_max_position_embeddings"] =
                *file_.get_int(scaling + "original_context_length");
            set("rope_scaling", block);
        }
    }

    void fill_experts() {
        const ModelConfig& c = config_;
        set("num_experts_per_tok", c.n_experts_used);
        const bool qwen = type_ == "qwen2_moe" || type_ == "qwen3_moe";
        if (qwen) set("num_experts", c.n_experts);
        if (type_ == "qwen2_moe") {
            set("shared_expert_intermediate_size", c.shared_ffn);
            set("decoder_sparse_step", 1);
            set("mlp_only_layers", Json::array());
        }
        if (qwen || type_ == "glm4_moe") {
            set("moe_intermediate_size", c.ffn);
            set("norm_topk_prob", c.normalise_expert_weights);
        }
        if (type_ == "glm4_moe") {
            set("n_routed_experts", c.n_experts);
            set("n_shared_experts", c.shared_ffn / c.ffn);
            set("n_group", c.n_expert_groups);
            set("topk_group", c.n_expert_groups_used);
            set("first_k_dense_replace", c.n_dense_layers);
            set("routed_scaling_factor", c.expert_weight_scale);
            set("num_nextn_predict_layers", c.n_skipped_layers);
            set("use_qk_norm", c.qk_norm != QkNorm::none);
        }
        if (!config.contains("num_experts") && !config.contains("n_routed_experts"))
            set("num_local_experts", c.n_experts);
        if (type_ == "granitemoeshared") set("shared_intermediate_size", c.shared_ffn);
        if (type_ == "gpt_oss") {
            set("attention_bias", true);
            set("swiglu_limit", 7.0);
            set("quantization_config", {{"quant_method", "mxfp4"}});
            Json types = Json::array();
            for (std::int32_t l = 0; l < c.n_layers; ++l)
                types.push_back(l % 2 == 0 ? "sliding_attention" : "full_attention");
            set("layer_types", types);
        }
        if (type_ == "minimax_m2") {
            set("rotary_dim", c.rope_dim);
            set("use_qk_norm", true);
            set("use_routing_bias", true);
            set("scoring_func", "sigmoid");
        }
    }

    // Heads of two kinds, and experts beside feed-forwards.
    void fill_gemma4() {
        const ModelConfig& c = config_;
        config["head_dim"] = c.windowed_head_dim;
        config["num_key_value_heads"] = c.windowed_kv_heads;
        config["global_head_dim"] = c.head_dim;
        config["num_global_key_value_heads"] = c.n_kv_heads;
        config["attention_k_eq_v"] = c.keys_are_values;
        config["hidden_size_per_layer_input"] = c.layer_input;
        config["num_kv_shared_layers"] = c.n_shared_kv_layers;
        config["vocab_size_per_layer_input"] = c.vocab;
        config["use_double_wide_mlp"] = !c.dense_widths.empty();
        if (!c.dense_widths.empty()) config["intermediate_size"] = c.dense_widths.front();
        config["enable_moe_block"] = c.n_experts > 0;
        config["num_experts"] = Json();
        if (c.n_experts > 0) {
            config["num_experts"] = c.n_experts;
            config["top_k_experts"] = c.n_experts_used;
            config["moe_intermediate_size"] = c.ffn;
            config["intermediate_size"] = c.dense_ffn;
        }
        Json types = Json::array();
        for (std::int32_t l = 0; l < c.n_layers; ++l)
            types.push_back(c.window_of(l) > 0 ? "sliding_attention" : "full_attention");
        config["layer_types"] = types;
        const auto turned = std::count(c.rope_factors.begin(), c.rope_factors.end(), 1.0F);
        config["rope_parameters"] = {
            {"full_attention",
             {{"rope_type", "proportional"},
              {"rope_theta", c.rope_base},
              {"partial_rotary_factor",
               static_cast<double>(turned) / static_cast<double>(c.rope_factors.size())}}},
            {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
    }

    // Chunks, a temperature and experts in some layers. Which layers rotate is not said, as in some
    // of the published files.
    void fill_llama4() {
        const ModelConfig& c = config_;
        config["sliding_window"] = Json();
        set("attention_chunk_size", c.sliding_window);
        set("floor_scale", c.temperature_length);
        set("attn_scale", c.temperature_scale);
        set("attn_temperature_tuning", 4);
        set("use_qk_norm", c.qk_norm != QkNorm::none);
        set("no_rope_layers", Json::array());
        set("interleave_moe_layer_step", c.expert_period);
        if (c.expert_period > 1) set("intermediate_size_mlp", c.dense_ffn);
    }

    // The factors and caps of a GGUF file under the names that config.json has for them.
    void fill_scales() {
        const auto copy = [&](const std::string& ours, const char* theirs) {
            const auto value = file_.get_float(config_.architecture + "." + ours);
            if (value.ok()) set(theirs, *value);
        };
        copy("embedding_scale", "embedding_multiplier");
        copy("residual_scale", "residual_multiplier");
        copy("attention.scale", "attention_multiplier");
        copy("logit_scale", type_.starts_with("granite") ? "logits_scaling" : "logit_scale");
        copy("attn_logit_softcapping", "attn_logit_softcapping");
        copy("final_logit_softcapping", "final_logit_softcapping");
        copy("attention.layer_norm_epsilon", type_ == "nemotron" ? "norm_eps" : "layer_norm_eps");
        if (type_ == "nemotron") config["hidden_act"] = "relu2";
        if (is_gemma()) config["hidden_act"] = "gelu_pytorch_tanh";
    }
    bool is_gemma() const { return type_.starts_with("gemma"); }
    bool makes_embeddings() const { return config_.architecture == "gemma-embedding"; }

    // As sentence-transformers publish a model of embeddings: its pooling and its dense layers in
    // folders of their own.
    void write_modules() {
        Json modules = Json::array();
        const auto add_module = [&](const char* type, const std::string& path) {
            modules.push_back(
                {{"path", path}, {"type", std::string("sentence_transformers.models.") + type}});
            std::filesystem::create_directories(folder_ + "/" + path);
        };
        add_module("Transformer", "");
        add_module("Pooling", "1_Pooling");
        write_file(
            folder_ + "/1_Pooling/config.json",
            Json{{"pooling_mode_cls_token", false}, {"pooling_mode_mean_tokens", true}}.dump());
        for (const char* which : {"2", "3"}) {
            const TensorInfo& tensor =
                *file_.find_tensor(std::string("dense_") + which + ".weight");
            const std::string path = std::string(which) + "_Dense";
            add_module("Dense", path);
            write_file(folder_ + "/" + path + "/config.json",
                       Json{{"in_features", tensor.shape[0]},
                            {"out_features", tensor.shape[1]},
                            {"bias", false},
                            {"activation_function", "torch.nn.modules.linear.Identity"}}
                           .dump());
            SafetensorsWriter writer;
            writer.add("linear.weight", dtype_of(tensor.type), {tensor.shape[1], tensor.shape[0]},
                       text_of(file_, tensor));
            write_file(folder_ + "/" + path + "/model.safetensors", writer.take());
        }
        add_module("Normalize", "4_Normalize");
        write_file(folder_ + "/modules.json", modules.dump());
    }

    void fill_longrope() {
        if (file_.find_tensor("rope_factors_long.weight") == nullptr) return;
        const std::string scaling = "phi3.rope.scaling.";
        const auto factors = [&](const char* name) {
            const std::string bytes = text_of(file_, *file_.find_tensor(name));
            std::vector<float> values(bytes.size() / sizeof(float));
            std::memcpy(values.data(), bytes.data(), bytes.size());
            return values;
        };
        set("original_max_position_embeddings",
            *file_.get_int(scaling + "original_context_length"));
        set("rope_scaling", {{"type", "longrope"},
                             {"long_factor", factors("rope_factors_long.weight")},
                             {"short_factor", factors("rope_factors_short.weight")},
                             {"attention_factor", *file_.get_float(scaling + "attn_factor")}});
    }

    const std::vector<std::string>& strings(const char* key) const {
        return std::get<std::vector<std::string>>(std::get<MetaArray>(*file_.find(key)));
    }

    void fill_tokenizer() {
        const std::string model = *file_.get_string("tokenizer.ggml.model");
        const bool byte_level = model == "gpt2";
        const auto& tokens = strings("tokenizer.ggml.tokens");
        const auto& types = std::get<std::vector<std::int64_t>>(
            std::get<MetaArray>(*file_.find("tokenizer.ggml.token_type")));
        Json vocab = Json::object();
        Json added = Json::array();
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (types[i] == 5) continue;
            vocab[tokens[i]] = i;
            if (types[i] != 1 && types[i] != 6) {
                added.push_back({{"id", i}, {"content", tokens[i]}, {"special", types[i] != 4}});
            }
        }
        tokenizer["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"byte_fallback", !byte_level}};
        tokenizer["added_tokens"] = added;
        const auto unknown = file_.get_int("tokenizer.ggml.unknown_token_id");
        if (unknown.ok() && !byte_level) {
            tokenizer["model"]["unk_token"] = tokens[static_cast<std::size_t>(*unknown)];
        }
        if (model == "llama") {
            fill_sentencepiece(tokens, types);
        } else {
            tokenizer["model"]["merges"] = strings("tokenizer.ggml.merges");
        }
        if (byte_level && !tokenizer.contains("pre_tokenizer"))
            tokenizer["pre_tokenizer"] =
                pre_tokenizer_named(*file_.get_string("tokenizer.ggml.pre"));
        for (const char* name : {"bos", "eos"}) {
            const auto id = file_.get_int(std::string("tokenizer.ggml.") + name + "_token_id");
            if (id.ok()) {
                tokenizer_config[std::string(name) + "_token"] =
                    tokens[static_cast<std::size_t>(*id)];
            }
            const auto adds = file_.get_bool(std::string("tokenizer.ggml.add_") + name + "_token");
            if (adds.ok()) tokenizer_config[std::string("add_") + name + "_token"] = *adds;
        }
        const auto chat = file_.get_string("tokenizer.chat_template");
        if (chat.ok() && !tokenizer_config.contains("chat_template"))
            tokenizer_config["chat_template"] = *chat;
    }

    // Fills in merges as converters of SentencePiece vocabularies make them: every way to cut a
    // token into two tokens, best score first.
    void fill_sentencepiece(const std::vector<std::string>& tokens,
                            const std::vector<std::int64_t>& types) {
        const auto& scores = std::get<std::vector<double>>(
            std::get<MetaArray>(*file_.find("tokenizer.ggml.scores")));
        std::set<std::string> pieces;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (types[i] == 1) pieces.insert(tokens[i]);
        }
        std::vector<std::pair<double, std::string>> merges;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (types[i] != 1) continue;
            for (std::size_t cut = 1; cut < tokens[i].size(); ++cut) {
                const std::string left = tokens[i].substr(0, cut);
                const std::string right = tokens[i].substr(cut);
                if (pieces.contains(left) && pieces.contains(right))
                    merges.emplace_back(scores[i], left + " " + right);
            }
        }
        std::stable_sort(merges.begin(), merges.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        Json list = Json::array();
        for (const auto& [score, merge] : merges) list.push_back(merge);
        tokenizer["model"]["merges"] = list;
        const auto prefix = file_.get_bool("tokenizer.ggml.add_space_prefix");
        Json steps = Json::array();
        if (!prefix.ok() || *prefix) {
            steps.push_back({{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}});
        }
        steps.push_back({{"type", "Replace"}});
        tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
    }

    static const char* dtype_of(TensorType type) {
        return type == TensorType::f32 ? "F32" : type == TensorType::f16 ? "F16" : "BF16";
    }

    void add(const std::string& name, TensorType type, const std::vector<std::int64_t>& shape,
             const std::string& bytes) {
        const std::size_t part = n_tensors_++ % parts_.size();
        const bool inner = sees_images && name.starts_with("model.layers.");
        const bool outer = name == "model.norm.weight" || name.starts_with("model.embed_tokens") ||
                           name.starts_with("model.per_layer_");
        const bool of_text =
            inner ||
            (sees_images && (outer || (type_ == "llama4_text" && name == "lm_head.weight")));
        const std::string full = !of_text ? name
                                 : type_ == "llama4_text"
                                     ? "language_model." + name
                                     : "model.language_model." + name.substr(6);
        const auto put = [&](const std::string& own, const char* dtype,
                             const std::vector<std::int64_t>& size, const std::string& data) {
            parts_[part].add(own, dtype, size, data);
            place_[own] = part;
        };
        const bool of_layer = name.starts_with("model.layers.") && name.ends_with(".weight");
        if (quantise && of_layer && shape.size() == 2 && quantise(full, shape, bytes, put)) return;
        put(full, dtype_of(type), shape, bytes);
    }

    // Hugging Face's name of a tensor: "model.layers.3.self_attn.q_proj.weight" for
    // "blk.3.attn_q.weight".
    std::string name_of(const std::string& name) const {
        static const std::map<std::string, std::string> kOuter{
            {"token_embd.weight", "model.embed_tokens.weight"},
            {"output_norm.weight", "model.norm.weight"},
            {"output_norm.bias", "model.norm.bias"},
            {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
            {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
            {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
            {"output.weight", "lm_head.weight"}};
        if (const auto found = kOuter.find(name); found != kOuter.end()) return found->second;
        static const std::map<std::string, std::string> kInner{
            {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
            {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
            {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
            {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
            {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
            {"ffn_down", "mlp.down_proj"},       {"ffn_gate_inp", "mlp.gate"}};
        // Where norms are called otherwise than llama's, or have no name there.
        static const std::map<std::string, std::map<std::string, std::string>> kOfType{
            {"glm4",
             {{"post_attention_norm", "post_self_attn_layernorm"},
              {"post_ffw_norm", "post_mlp_layernorm"},
              {"ffn_up", "mlp.gate_up_proj"}}},
            {"olmo2",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"}}},
            {"olmo3",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"}}},
            {"gemma2",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"ffn_norm", "pre_feedforward_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"}}},
            {"gemma3_text",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"ffn_norm", "pre_feedforward_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"}}},
            {"gemma4_text",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"ffn_norm", "pre_feedforward_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"},
              {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
              {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
              {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
              {"layer_output_scale", "layer_scalar"},
              {"inp_gate", "per_layer_input_gate"},
              {"proj", "per_layer_projection"},
              {"post_norm", "post_per_layer_input_norm"},
              {"ffn_gate_up_exps", "experts.gate_up_proj"},
              {"ffn_down_exps", "experts.down_proj"},
              {"ffn_gate_inp", "router.proj"}}},
            {"glm4_moe",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"exp_probs_b", "mlp.gate.e_score_correction_bias"},
              {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
              {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
              {"ffn_down_shexp", "mlp.shared_experts.down_proj"}}},
            {"qwen2_moe",
             {{"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
              {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
              {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
              {"ffn_down_shexp", "mlp.shared_expert.down_proj"}}},
            {"gpt_oss",
             {{"post_attention_norm", "post_attention_layernorm"},
              {"attn_sinks", "self_attn.sinks"},
              {"ffn_gate_inp", "mlp.router"}}},
            {"llama4_text",
             {{"ffn_gate", "feed_forward.gate_proj"},
              {"ffn_up", "feed_forward.up_proj"},
              {"ffn_down", "feed_forward.down_proj"},
              {"ffn_gate_inp", "feed_forward.router"},
              {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
              {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
              {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}}},
            {"minimax_m2",
             {{"ffn_gate_inp", "block_sparse_moe.gate"},
              {"exp_probs_b", "block_sparse_moe.e_score_correction_bias"}}},
            {"mixtral", {{"ffn_gate_inp", "block_sparse_moe.gate"}}},
            {"granitemoeshared", {{"ffn_gate_inp", "block_sparse_moe.router.layer"}}},
            {"phi3", {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}}}};
        const std::size_t first = name.find('.', 4);
        const std::size_t second = name.rfind('.');
        const std::string inner = name.substr(first + 1, second - first - 1);
        const std::string layer = "model.layers." + name.substr(4, first - 4) + ".";
        const auto of_type = kOfType.find(type_);
        if (of_type != kOfType.end() && of_type->second.contains(inner)) {
            if (name.ends_with(".scale"))
                return layer +
                       (inner == "ffn_gate_inp" ? "router.scale" : "router.per_expert_scale");
            const bool whole = inner == "exp_probs_b" || inner == "attn_sinks" ||
                               inner == "layer_output_scale" || inner.ends_with("_exps");
            return layer + of_type->second.at(inner) + (whole ? "" : name.substr(second));
        }
        return layer + kInner.at(inner) + name.substr(second);
    }

    void write_experts(const TensorInfo& tensor) {
        static const std::map<std::string, std::pair<std::string, std::string>> kNames{
            {"ffn_gate_exps.weight", {"w1", "gate_proj"}},
            {"ffn_up_exps.weight", {"w3", "up_proj"}},
            {"ffn_down_exps.weight", {"w2", "down_proj"}}};
        const std::size_t first = tensor.name.find('.', 4);
        const auto& names = kNames.at(tensor.name.substr(first + 1));
        const bool mixtral = type_ == "mixtral" || type_ == "minimax_m2";
        const std::string layer = "model.layers." + tensor.name.substr(4, first - 4) + "." +
                                  (mixtral ? "block_sparse_moe" : "mlp") + ".experts.";
        const std::string all = text_of(file_, tensor);
        const auto n = static_cast<std::size_t>(tensor.shape[2]);
        for (std::size_t e = 0; e < n; ++e) {
            add(layer + std::to_string(e) + "." + (mixtral ? names.first : names.second) +
                    ".weight",
                tensor.type, {tensor.shape[1], tensor.shape[0]},
                all.substr(e * all.size() / n, all.size() / n));
        }
    }

    // Granite's: one tensor with the rows of gate and up of every expert, another with those of
    // down. `ending` is that of our tensors: "_exps" or "_shexp".
    void write_granite(const std::string& layer, const std::string& ending,
                       const std::string& theirs) {
        const auto tensor = [&](const char* what) -> const TensorInfo& {
            return *file_.find_tensor("blk." + layer + ".ffn_" + what + ending + ".weight");
        };
        const TensorInfo& gate = tensor("gate");
        const std::string gates = text_of(file_, gate), ups = text_of(file_, tensor("up"));
        const bool several = gate.shape.size() == 3;
        const std::size_t n = several ? static_cast<std::size_t>(gate.shape[2]) : 1;
        std::string both;
        for (std::size_t e = 0; e < n; ++e) {
            const std::size_t bytes = gates.size() / n;
            both += gates.substr(e * bytes, bytes) + ups.substr(e * bytes, bytes);
        }
        std::vector<std::int64_t> shape{2 * gate.shape[1], gate.shape[0]};
        if (several) shape.insert(shape.begin(), gate.shape[2]);
        const std::string to = "model.layers." + layer + "." + theirs;
        add(to + ".input_linear.weight", gate.type, shape, both);
        const TensorInfo& down = tensor("down");
        add(to + ".output_linear.weight", down.type, {down.shape.rbegin(), down.shape.rend()},
            text_of(file_, down));
    }

    // True: the tensor was written, or will be with the last of its kind.
    bool write_as_granite(const TensorInfo& tensor) {
        if (type_ != "granitemoeshared") return false;
        const std::size_t dot = tensor.name.find('.', 4);
        const std::string inner = tensor.name.substr(dot == std::string::npos ? 0 : dot + 1);
        const std::string layer = tensor.name.substr(4, dot - 4);
        if (inner == "ffn_down_exps.weight") write_granite(layer, "_exps", "block_sparse_moe");
        if (inner == "ffn_down_shexp.weight") write_granite(layer, "_shexp", "shared_mlp");
        return inner.ends_with("_exps.weight") || inner.ends_with("_shexp.weight");
    }

    // Llama 4: each expert's matrices with rows and columns exchanged, gate and up side by side.
    void write_llama4(const std::string& layer, const std::vector<std::string>& ours,
                      const std::string& theirs) {
        std::vector<std::string> parts;
        const TensorInfo* tensor = nullptr;
        for (const std::string& what : ours) {
            tensor = file_.find_tensor("blk." + layer + "." + what + ".weight");
            parts.push_back(text_of(file_, *tensor));
        }
        const auto cols = static_cast<std::size_t>(tensor->shape[0]);
        const auto rows = static_cast<std::size_t>(tensor->shape[1]);
        const std::size_t size = parts[0].size() / cols / static_cast<std::size_t>(tensor->rows());
        std::string bytes;
        for (std::size_t e = 0; e < static_cast<std::size_t>(tensor->shape[2]); ++e) {
            for (std::size_t c = 0; c < cols; ++c) {
                for (const std::string& part : parts) {
                    for (std::size_t r = 0; r < rows; ++r)
                        bytes += part.substr(((e * rows + r) * cols + c) * size, size);
                }
            }
        }
        add("model.layers." + layer + ".feed_forward.experts." + theirs, tensor->type,
            {tensor->shape[2], tensor->shape[0],
             static_cast<std::int64_t>(parts.size()) * tensor->shape[1]},
            bytes);
    }

    // True: the tensor was written, or will be with the last of its kind.
    bool write_as_llama4(const TensorInfo& tensor) {
        if (type_ != "llama4_text" || tensor.name.find("_exps.") == std::string::npos) return false;
        const std::string layer = tensor.name.substr(4, tensor.name.find('.', 4) - 4);
        if (tensor.name.ends_with("ffn_down_exps.weight")) {
            write_llama4(layer, {"ffn_gate_exps", "ffn_up_exps"}, "gate_up_proj");
            write_llama4(layer, {"ffn_down_exps"}, "down_proj");
        }
        return true;
    }

    // gpt-oss: rows of gate and up in turns, as blocks of MXFP4 whose bytes have two elements that
    // follow each other, their scales in a tensor of their own; biases in turns, too.
    void write_gpt_oss(const std::string& layer, const std::vector<std::string>& ours,
                       const std::string& theirs) {
        CHECK(experts != nullptr);
        const std::string to = "model.layers." + layer + ".mlp.experts." + theirs;
        std::vector<std::string> blocks, biases;
        const TensorInfo* tensor = nullptr;
        for (const std::string& what : ours) {
            const std::string name = "blk." + layer + "." + what;
            tensor = experts->find_tensor(name + ".weight");
            blocks.push_back(text_of(*experts, *tensor));
            biases.push_back(text_of(file_, *file_.find_tensor(name + ".bias")));
        }
        CHECK(tensor->type == TensorType::mxfp4);
        const auto n = static_cast<std::size_t>(tensor->shape[1] * tensor->shape[2]);
        const std::size_t row_blocks = static_cast<std::size_t>(tensor->shape[0]) / 32;
        std::string bytes, scales, bias;
        for (std::size_t row = 0; row < n; ++row) {
            for (std::size_t part = 0; part < ours.size(); ++part) {
                bias += biases[part].substr(4 * row, 4);
                for (std::size_t b = 0; b < row_blocks; ++b) {
                    const char* block = blocks[part].data() + 17 * (row * row_blocks + b);
                    scales += block[0];
                    std::vector<int> elements(32);
                    for (std::size_t i = 0; i < 16; ++i) {
                        elements[i] = block[1 + i] & 15;
                        elements[i + 16] = (block[1 + i] >> 4) & 15;
                    }
                    for (std::size_t i = 0; i < 32; i += 2)
                        bytes += static_cast<char>(elements[i] | elements[i + 1] << 4);
                }
            }
        }
        const auto parts = static_cast<std::int64_t>(ours.size());
        const std::vector<std::int64_t> shape{tensor->shape[2], parts * tensor->shape[1],
                                              static_cast<std::int64_t>(row_blocks)};
        add_bytes(to + "_blocks", {shape[0], shape[1], shape[2], 16}, bytes);
        add_bytes(to + "_scales", shape, scales);
        add(to + "_bias", TensorType::f32, {shape[0], shape[1]}, bias);
    }

    // True: the tensor was written, or will be with the last of its kind.
    bool write_as_gpt_oss(const TensorInfo& tensor) {
        if (type_ != "gpt_oss" || tensor.name.find("_exps.") == std::string::npos) return false;
        const std::string layer = tensor.name.substr(4, tensor.name.find('.', 4) - 4);
        if (tensor.name.ends_with("ffn_down_exps.weight")) {
            write_gpt_oss(layer, {"ffn_gate_exps", "ffn_up_exps"}, "gate_up_proj");
            write_gpt_oss(layer, {"ffn_down_exps"}, "down_proj");
        }
        return true;
    }

    void add_bytes(const std::string& name, const std::vector<std::int64_t>& shape,
                   const std::string& bytes) {
        const std::size_t part = n_tensors_++ % parts_.size();
        parts_[part].add(name, "U8", shape, bytes);
        place_[name] = part;
    }

    // Gemma's norm weights are published without the one that is added to them.
    static std::string less_one(const std::string& floats) {
        std::vector<float> values(floats.size() / sizeof(float));
        std::memcpy(values.data(), floats.data(), floats.size());
        for (float& value : values) value -= 1.0F;
        return {reinterpret_cast<const char*>(values.data()), floats.size()};
    }

    void write_tensors() {
        for (const TensorInfo& tensor : file_.tensors()) {
            if (tensor.name.starts_with("rope_") || tensor.name.starts_with("dense_") ||
                write_as_granite(tensor) || write_as_gpt_oss(tensor) || write_as_llama4(tensor)) {
                continue;
            }
            if (tensor.shape.size() == 3 && type_ != "gemma4_text") {
                write_experts(tensor);
                continue;
            }
            const bool q = tensor.name.ends_with("attn_q.weight");
            const bool k = tensor.name.ends_with("attn_k.weight");
            std::string bytes = text_of(file_, tensor);
            const bool interleaved = config_.architecture == "llama" || type_ == "smollm3" ||
                                     type_.starts_with("granite");
            if (interleaved && (q || k)) {
                bytes = uninterleave(
                    bytes, static_cast<std::size_t>(tensor.rows()),
                    static_cast<std::size_t>(q ? config_.n_heads : config_.n_kv_heads));
            }
            const bool adds_one = (is_gemma() && type_ != "gemma4_text") || type_ == "nemotron";
            if (adds_one && tensor.name.ends_with("norm.weight")) bytes = less_one(bytes);
            std::vector<std::int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
            if (tensor.name.ends_with("ffn_gate_inp_shexp.weight")) shape.insert(shape.begin(), 1);
            const std::string name = name_of(tensor.name);
            // A class without a head has no "model." before its names.
            add(makes_embeddings() ? name.substr(6) : name, tensor.type, shape, bytes);
        }
        if (sees_images) {
            const bool llama4 = type_ == "llama4_text";
            add(llama4 ? "vision_model.patch_embedding.linear.weight"
                       : "model.vision_tower.patch_embedder.weight",
                TensorType::f32, {1, 2}, "12345678");
            add(llama4 ? "multi_modal_projector.linear_1.weight"
                       : "model.embed_vision.projection.weight",
                TensorType::f32, {1, 1}, "1234");
        }
        Json map = Json::object();
        for (const auto& [name, part] : place_) map[name] = part_name(part);
        for (std::size_t i = 0; i < parts_.size(); ++i)
            write_file(folder_ + "/" + part_name(i), parts_[i].take());
        if (parts_.size() > 1) {
            write_file(folder_ + "/model.safetensors.index.json",
                       Json{{"metadata", Json::object()}, {"weight_map", map}}.dump());
        }
    }

    std::string part_name(std::size_t i) const {
        if (parts_.size() == 1) return "model.safetensors";
        return "model-" + std::to_string(i + 1) + "-of-" + std::to_string(parts_.size()) +
               ".safetensors";
    }

    const GgufFile& file_;
    ModelConfig config_;
    std::string folder_;
    std::string type_;
    std::vector<SafetensorsWriter> parts_;
    std::map<std::string, std::size_t> place_;
    std::size_t n_tensors_ = 0;
};

}  // namespace helix::model::test_support
