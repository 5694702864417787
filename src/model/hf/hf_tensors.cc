#include "model/hf/hf_tensors.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/arch/decoder.h"
#include "model/hf/hf_encoder.h"

namespace helix::model {
namespace {

class List {
  public:
    explicit List(const HfConfig& config) : config_(config), traits_(*config.traits) {}

    // [rows, cols]
    HfTensor& matrix(const std::string& name, const std::string& source, std::int64_t rows,
                     std::int64_t cols) {
        tensors_.push_back({.name = name,
                            .shape = {cols, rows},
                            .sources = {source},
                            .source_shape = {rows, cols}});
        return tensors_.back();
    }
    void vector(const std::string& name, const std::string& source, std::int64_t size) {
        const bool less_one = traits_.norms_less_one && name.ends_with("norm.weight");
        tensors_.push_back({.name = name,
                            .shape = {size},
                            .sources = {source},
                            .source_shape = {size},
                            .keep_float = true,
                            .add_one = less_one});
    }

    void layer(std::int32_t index) {
        const std::string ours = fmt::format("blk.{}.", index);
        const std::string theirs = fmt::format("{}layers.{}.", config_.prefix, index);
        const auto norm = [&](bool there, const char* name, const char* source) {
            if (there) vector(ours + name + ".weight", theirs + source + ".weight", config_.hidden);
            if (there && traits_.norm_bias)
                vector(ours + name + ".bias", theirs + source + ".bias", config_.hidden);
        };
        norm(traits_.input_norms, "attn_norm", config_.norms.attention);
        attention(index, ours, theirs + "self_attn.");
        if (traits_.layer_scales)
            vector(ours + "layer_output_scale.weight", theirs + "layer_scalar", 1);
        norm(traits_.output_norms, "post_attention_norm", config_.norms.attention_output);
        if (traits_.input_norms && !traits_.parallel_blocks) {
            vector(ours + std::string(traits_.feed_forward_norm),
                   theirs + config_.norms.feed_forward + ".weight", config_.hidden);
            if (traits_.norm_bias)
                vector(ours + "ffn_norm.bias", theirs + config_.norms.feed_forward + ".bias",
                       config_.hidden);
        }
        if (config_.n_experts > 0 && traits_.dense_beside_experts) {
            gemma4_experts(ours, theirs);
            feed_forward(index, ours, theirs + config_.feed_forward);
        } else if (config_.n_experts > 0 && index >= config_.n_dense_layers &&
                   (index + 1) % config_.expert_period == 0) {
            experts(ours, theirs);
        } else {
            feed_forward(index, ours, theirs + config_.feed_forward);
        }
        norm(traits_.output_norms, "post_ffw_norm", config_.norms.feed_forward_output);
        if (config_.layer_input > 0) layer_input(ours, theirs);
    }

    // What all layers read of each token.
    void layer_inputs() {
        const std::int64_t all = std::int64_t{config_.layer_input} * config_.n_layers;
        const std::string& prefix = config_.prefix;
        matrix(kLayerInputTable, prefix + "embed_tokens_per_layer.weight", config_.vocab, all);
        matrix(kLayerInputProjection, prefix + "per_layer_model_projection.weight", all,
               config_.hidden);
        vector(kLayerInputNorm, prefix + "per_layer_projection_norm.weight", config_.layer_input);
    }

    // Behind the pooling of embeddings.
    void dense_layers() {
        const char* name = kFirstDense;
        for (const HfDense& dense : config_.dense_layers) {
            matrix(name, dense_source(dense.folder, "linear.weight"), dense.outputs, dense.inputs);
            name = kSecondDense;
        }
    }

    std::vector<HfTensor> take() { return std::move(tensors_); }

  private:
    void attention(std::int32_t index, const std::string& ours, const std::string& theirs) {
        const std::int64_t hidden = config_.hidden;
        const bool windowed =
            config_.windowed_head_dim > 0 && config_.windowed[static_cast<std::size_t>(index)];
        const std::int64_t head_dim = windowed ? config_.windowed_head_dim : config_.head_dim;
        const bool has_keys = !config_.shares_kv(index);
        const std::int64_t q = config_.n_heads * head_dim;
        const std::int64_t kv =
            (windowed ? config_.windowed_kv_heads : config_.n_kv_heads) * head_dim;
        if (traits_.fused_qkv) {
            matrix(ours + "attn_qkv.weight", theirs + "qkv_proj.weight", q + 2 * kv, hidden);
        } else {
            matrix(ours + "attn_q.weight", theirs + "q_proj.weight", q, hidden).interleave_heads =
                config_.interleaves ? config_.n_heads : 0;
            if (has_keys)
                matrix(ours + "attn_k.weight", theirs + "k_proj.weight", kv, hidden)
                    .interleave_heads = config_.interleaves ? config_.n_kv_heads : 0;
            if (has_keys && (windowed || !config_.keys_are_values))
                matrix(ours + "attn_v.weight", theirs + "v_proj.weight", kv, hidden);
        }
        if (config_.qkv_bias) {
            vector(ours + "attn_q.bias", theirs + "q_proj.bias", q);
            vector(ours + "attn_k.bias", theirs + "k_proj.bias", kv);
            vector(ours + "attn_v.bias", theirs + "v_proj.bias", kv);
        }
        if (config_.qk_norm && traits_.qk_norm == QkNorm::centred) {
            matrix(ours + "attn_q_norm.weight", theirs + "q_norm.weight", config_.n_heads, head_dim)
                .keep_float = true;
            matrix(ours + "attn_k_norm.weight", theirs + "k_norm.weight", config_.n_kv_heads,
                   head_dim)
                .keep_float = true;
        } else if (config_.qk_norm) {
            const bool whole = traits_.qk_norm == QkNorm::projection;
            vector(ours + "attn_q_norm.weight", theirs + "q_norm.weight", whole ? q : head_dim);
            if (has_keys)
                vector(ours + "attn_k_norm.weight", theirs + "k_norm.weight",
                       whole ? kv : head_dim);
        }
        if (traits_.output_bias)
            vector(ours + "attn_output.bias", theirs + "o_proj.bias", config_.hidden);
        if (traits_.attention_sinks)
            vector(ours + "attn_sinks.weight", theirs + "sinks", config_.n_heads);
        matrix(ours + "attn_output.weight", theirs + "o_proj.weight", hidden, q);
    }

    // What a layer makes of its input of a token.
    void layer_input(const std::string& ours, const std::string& theirs) {
        const std::int64_t hidden = config_.hidden;
        const std::int64_t input = config_.layer_input;
        matrix(ours + "inp_gate.weight", theirs + "per_layer_input_gate.weight", input, hidden);
        matrix(ours + "proj.weight", theirs + "per_layer_projection.weight", hidden, input);
        vector(ours + "post_norm.weight", theirs + "post_per_layer_input_norm.weight", hidden);
    }

    void feed_forward(std::int32_t index, const std::string& ours, const std::string& theirs) {
        const std::int64_t ffn = config_.dense_width(index);
        if (traits_.fused_gate_up) {
            matrix(ours + "ffn_up.weight", theirs + "gate_up_proj.weight", 2 * ffn, config_.hidden);
        } else {
            if (traits_.activation != Activation::squared_relu)
                matrix(ours + "ffn_gate.weight", theirs + "gate_proj.weight", ffn, config_.hidden);
            matrix(ours + "ffn_up.weight", theirs + "up_proj.weight", ffn, config_.hidden);
        }
        matrix(ours + "ffn_down.weight", theirs + "down_proj.weight", config_.hidden, ffn);
    }

    void experts(const std::string& ours, const std::string& layer) {
        if (config_.experts == HfExperts::gpt_oss) return gpt_oss_experts(ours, layer + "mlp.");
        if (config_.experts == HfExperts::llama4)
            return llama4_experts(ours, layer + config_.feed_forward);
        const bool usual = config_.experts == HfExperts::usual;
        const bool granite = config_.experts == HfExperts::granite;
        const std::string theirs = layer + (usual ? "mlp." : "block_sparse_moe.");
        matrix(ours + "ffn_gate_inp.weight",
               theirs + (granite ? "router.layer.weight" : "gate.weight"), config_.n_experts,
               config_.hidden)
            .keep_float = true;
        if (config_.selection_bias) {
            vector(ours + "exp_probs_b.bias",
                   theirs + (usual ? "gate." : "") + "e_score_correction_bias", config_.n_experts);
        }
        if (granite) {
            stacked(ours + "ffn_gate_exps.weight", theirs + "input_linear.weight", 0);
            stacked(ours + "ffn_up_exps.weight", theirs + "input_linear.weight", config_.ffn);
            tensors_.push_back({.name = ours + "ffn_down_exps.weight",
                                .shape = {config_.ffn, config_.hidden, config_.n_experts},
                                .sources = {theirs + "output_linear.weight"},
                                .source_shape = {config_.n_experts, config_.hidden, config_.ffn}});
        } else {
            one_by_one(ours + "ffn_gate_exps.weight", theirs, usual ? "gate_proj" : "w1",
                       config_.ffn, config_.hidden);
            one_by_one(ours + "ffn_up_exps.weight", theirs, usual ? "up_proj" : "w3", config_.ffn,
                       config_.hidden);
            one_by_one(ours + "ffn_down_exps.weight", theirs, usual ? "down_proj" : "w2",
                       config_.hidden, config_.ffn);
        }
        if (config_.shared_ffn > 0) shared_expert(ours, layer);
    }

    void gemma4_experts(const std::string& ours, const std::string& theirs) {
        const std::string both = theirs + "experts.gate_up_proj";
        matrix(ours + "ffn_gate_inp.weight", theirs + "router.proj.weight", config_.n_experts,
               config_.hidden)
            .keep_float = true;
        vector(ours + "ffn_gate_inp.scale", theirs + "router.scale", config_.hidden);
        vector(ours + "ffn_down_exps.scale", theirs + "router.per_expert_scale", config_.n_experts);
        for (const auto& [name, source] :
             {std::pair("post_ffw_norm_1", "post_feedforward_layernorm_1"),
              std::pair("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
              std::pair("post_ffw_norm_2", "post_feedforward_layernorm_2")})
            vector(ours + name + ".weight", theirs + source + ".weight", config_.hidden);
        stacked(ours + "ffn_gate_exps.weight", both, 0);
        stacked(ours + "ffn_up_exps.weight", both, config_.ffn);
        tensors_.push_back({.name = ours + "ffn_down_exps.weight",
                            .shape = {config_.ffn, config_.hidden, config_.n_experts},
                            .sources = {theirs + "experts.down_proj"},
                            .source_shape = {config_.n_experts, config_.hidden, config_.ffn}});
    }

    void llama4_experts(const std::string& ours, const std::string& theirs) {
        const std::int64_t ffn = config_.ffn;
        const std::int64_t hidden = config_.hidden;
        matrix(ours + "ffn_gate_inp.weight", theirs + "router.weight", config_.n_experts, hidden)
            .keep_float = true;
        const std::string both = theirs + "experts.gate_up_proj";
        transposed(ours + "ffn_gate_exps.weight", both, ffn, hidden, 0, 2 * ffn);
        transposed(ours + "ffn_up_exps.weight", both, ffn, hidden, ffn, 2 * ffn);
        transposed(ours + "ffn_down_exps.weight", theirs + "experts.down_proj", hidden, ffn, 0,
                   hidden);
        dense_expert(ours, theirs + "shared_expert.");
    }

    // Columns of every expert's matrix from `first` on, of `all` that the source has.
    void transposed(const std::string& name, const std::string& source, std::int64_t rows,
                    std::int64_t cols, std::int64_t first, std::int64_t all) {
        tensors_.push_back({.name = name,
                            .shape = {cols, rows, config_.n_experts},
                            .sources = {source},
                            .source_shape = {config_.n_experts, cols, all},
                            .first_row = first,
                            .transposed = true});
    }

    void gpt_oss_experts(const std::string& ours, const std::string& theirs) {
        const std::int64_t ffn = config_.ffn;
        const std::int64_t hidden = config_.hidden;
        matrix(ours + "ffn_gate_inp.weight", theirs + "router.weight", config_.n_experts, hidden)
            .keep_float = true;
        vector(ours + "ffn_gate_inp.bias", theirs + "router.bias", config_.n_experts);
        const std::string both = theirs + "experts.gate_up_proj";
        const std::string down = theirs + "experts.down_proj";
        packed(ours + "ffn_gate_exps", both, ffn, hidden, 0, 2);
        packed(ours + "ffn_up_exps", both, ffn, hidden, 1, 2);
        packed(ours + "ffn_down_exps", down, hidden, ffn, 0, 1);
    }

    // Every step-th row of each expert, from `first` on, and of its bias the elements.
    void packed(const std::string& name, const std::string& source, std::int64_t rows,
                std::int64_t cols, std::int64_t first, std::int64_t step) {
        const std::int64_t n = config_.n_experts;
        tensors_.push_back({.name = name + ".weight",
                            .shape = {cols, rows, n},
                            .sources = {source + "_blocks"},
                            .source_shape = {n, rows * step, cols / 32, 16},
                            .first_row = first,
                            .row_step = step,
                            .scales = source + "_scales"});
        tensors_.push_back({.name = name + ".bias",
                            .shape = {rows, n},
                            .sources = {source + "_bias"},
                            .source_shape = {n, rows * step},
                            .first_row = first,
                            .row_step = step,
                            .of_elements = true,
                            .keep_float = true});
    }

    void shared_expert(const std::string& ours, const std::string& layer) {
        const std::int64_t ffn = config_.shared_ffn;
        const std::int64_t hidden = config_.hidden;
        if (config_.experts == HfExperts::granite) {
            const std::string both = layer + "shared_mlp.input_linear.weight";
            for (const bool up : {false, true}) {
                HfTensor& half =
                    matrix(ours + (up ? "ffn_up_shexp.weight" : "ffn_gate_shexp.weight"), both, ffn,
                           hidden);
                half.source_shape = {2 * ffn, hidden};
                half.first_row = up ? ffn : 0;
            }
            matrix(ours + "ffn_down_shexp.weight", layer + "shared_mlp.output_linear.weight",
                   hidden, ffn);
            return;
        }
        if (!traits_.shared_gate) return dense_expert(ours, layer + "mlp.shared_experts.");
        dense_expert(ours, layer + "mlp.shared_expert.");
        tensors_.push_back({.name = ours + "ffn_gate_inp_shexp.weight",
                            .shape = {hidden},
                            .sources = {layer + "mlp.shared_expert_gate.weight"},
                            .source_shape = {1, hidden},
                            .keep_float = true});
    }

    // The expert that every row visits, in tensors as those of a feed-forward.
    void dense_expert(const std::string& ours, const std::string& theirs) {
        const std::int64_t ffn = config_.shared_ffn;
        const std::int64_t hidden = config_.hidden;
        matrix(ours + "ffn_gate_shexp.weight", theirs + "gate_proj.weight", ffn, hidden);
        matrix(ours + "ffn_up_shexp.weight", theirs + "up_proj.weight", ffn, hidden);
        matrix(ours + "ffn_down_shexp.weight", theirs + "down_proj.weight", hidden, ffn);
    }

    // Rows of gate or up from a tensor that has both of all experts.
    void stacked(const std::string& name, const std::string& source, std::int64_t first_row) {
        tensors_.push_back(
            {.name = name,
             .shape = {config_.hidden, config_.ffn, config_.n_experts},
             .sources = {source},
             .source_shape = {config_.n_experts, std::int64_t{2} * config_.ffn, config_.hidden},
             .first_row = first_row});
    }

    void one_by_one(const std::string& name, const std::string& theirs, const char* what,
                    std::int64_t rows, std::int64_t cols) {
        HfTensor tensor{.name = name,
                        .shape = {cols, rows, config_.n_experts},
                        .sources = {},
                        .source_shape = {rows, cols}};
        for (std::int32_t e = 0; e < config_.n_experts; ++e) {
            tensor.sources.push_back(fmt::format("{}experts.{}.{}.weight", theirs, e, what));
        }
        tensors_.push_back(std::move(tensor));
    }

    const HfConfig& config_;
    const DecoderTraits& traits_;
    std::vector<HfTensor> tensors_;
};

// A tensor's layer and what follows it in the name: 7 and "mlp.gate.weight" for
// "model.layers.7.mlp.gate.weight"; -1 for a tensor outside the layers.
std::pair<std::int32_t, std::string_view> layer_of(const HfConfig& config, std::string_view name) {
    const std::string layers = config.prefix + "layers.";
    if (!name.starts_with(layers)) return {-1, name};
    name.remove_prefix(layers.size());
    std::int32_t layer = -1;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), layer);
    const std::string_view rest = name.substr(std::size_t(read.ptr - name.data()));
    if (read.ec != std::errc() || !rest.starts_with('.')) return {-1, name};
    return {layer, rest.substr(1)};
}

// Whether its tensors are named as those of BERT and what descends from it.
bool is_own_encoder(const HfConfig& config) {
    return config.traits->encoder && !config.traits->norms_as_decoder;
}

// What published files have of layers that attend to another's keys and values, though nobody reads
// it.
bool is_of_keys(std::string_view rest) {
    return rest.starts_with("self_attn.k_proj.") || rest.starts_with("self_attn.v_proj.") ||
           rest.starts_with("self_attn.k_norm.");
}

}  // namespace

std::string dense_source(const std::string& folder, const std::string& tensor) {
    return folder + "/" + tensor;
}

std::vector<HfTensor> hf_tensors(const HfConfig& config) {
    if (is_own_encoder(config)) return hf_encoder_tensors(config);
    List list(config);
    list.matrix("token_embd.weight", config.prefix + "embed_tokens.weight", config.vocab,
                config.hidden);
    if (config.layer_input > 0) list.layer_inputs();
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) list.layer(layer);
    list.vector("output_norm.weight", config.prefix + "norm.weight", config.hidden);
    if (config.traits->norm_bias)
        list.vector("output_norm.bias", config.prefix + "norm.bias", config.hidden);
    if (!config.tied_embeddings && !config.traits->encoder) {
        list.matrix("output.weight", config.head, config.vocab, config.hidden);
    }
    list.dense_layers();
    return list.take();
}

bool is_spare_hf_tensor(const HfConfig& config, std::string_view name) {
    if (is_own_encoder(config)) return is_spare_encoder_tensor(config, name);
    const auto [layer, rest] = layer_of(config, name);
    if (layer >= config.n_layers && layer < config.n_layers + config.n_skipped_layers) return true;
    if (layer >= 0 && layer < config.n_layers && config.shares_kv(layer) && is_of_keys(rest))
        return true;
    // Where there is more than the text model, what reads images and sounds is left out.
    const bool of_others =
        config.prefix != "model." &&
        (name.starts_with("model.vision_tower.") || name.starts_with("model.embed_vision.") ||
         name.starts_with("model.audio_tower.") || name.starts_with("model.embed_audio.") ||
         name.starts_with("vision_model.") || name.starts_with("multi_modal_projector."));
    return of_others || name.ends_with(".rotary_emb.inv_freq") ||
           (config.tied_embeddings && name == config.head);
}

}  // namespace helix::model
