#include "model/hf/hf_tensors.h"

#include <string_view>

#include <fmt/format.h>

#include "model/arch/decoder.h"

namespace helix::model {
namespace {

class List {
  public:
    explicit List(const HfConfig& config) : config_(config), traits_(*config.traits) {}

    // [rows, cols]
    HfTensor& matrix(const std::string& name, const std::string& source, std::int64_t rows,
                     std::int64_t cols) {
        tensors_.push_back({name, {cols, rows}, {source}, {rows, cols}, 0, false, false});
        return tensors_.back();
    }
    void vector(const std::string& name, const std::string& source, std::int64_t size) {
        const bool less_one = traits_.norms_less_one && name.ends_with("norm.weight");
        tensors_.push_back({name, {size}, {source}, {size}, 0, true, less_one});
    }

    void layer(std::int32_t index) {
        const std::string ours = fmt::format("blk.{}.", index);
        const std::string theirs = fmt::format("model.layers.{}.", index);
        const auto norm = [&](bool there, const char* name, const char* source) {
            if (there) vector(ours + name + ".weight", theirs + source + ".weight", config_.hidden);
        };
        norm(traits_.input_norms, "attn_norm", config_.norms.attention);
        attention(ours, theirs + "self_attn.");
        norm(traits_.output_norms, "post_attention_norm", config_.norms.attention_output);
        norm(traits_.input_norms && !traits_.parallel_blocks, "ffn_norm",
             config_.norms.feed_forward);
        if (config_.n_experts > 0) {
            experts(ours, theirs + (config_.mixtral ? "block_sparse_moe." : "mlp."));
        } else {
            feed_forward(ours, theirs + "mlp.");
        }
        norm(traits_.output_norms, "post_ffw_norm", config_.norms.feed_forward_output);
    }

    std::vector<HfTensor> take() { return std::move(tensors_); }

  private:
    void attention(const std::string& ours, const std::string& theirs) {
        const std::int64_t hidden = config_.hidden;
        const std::int64_t q = std::int64_t{config_.n_heads} * config_.head_dim;
        const std::int64_t kv = std::int64_t{config_.n_kv_heads} * config_.head_dim;
        if (traits_.fused_qkv) {
            matrix(ours + "attn_qkv.weight", theirs + "qkv_proj.weight", q + 2 * kv, hidden);
        } else {
            matrix(ours + "attn_q.weight", theirs + "q_proj.weight", q, hidden).interleave_heads =
                config_.interleaves ? config_.n_heads : 0;
            matrix(ours + "attn_k.weight", theirs + "k_proj.weight", kv, hidden).interleave_heads =
                config_.interleaves ? config_.n_kv_heads : 0;
            matrix(ours + "attn_v.weight", theirs + "v_proj.weight", kv, hidden);
        }
        if (config_.qkv_bias) {
            vector(ours + "attn_q.bias", theirs + "q_proj.bias", q);
            vector(ours + "attn_k.bias", theirs + "k_proj.bias", kv);
            vector(ours + "attn_v.bias", theirs + "v_proj.bias", kv);
        }
        if (traits_.qk_norm != QkNorm::none) {
            const bool whole = traits_.qk_norm == QkNorm::projection;
            vector(ours + "attn_q_norm.weight", theirs + "q_norm.weight",
                   whole ? q : config_.head_dim);
            vector(ours + "attn_k_norm.weight", theirs + "k_norm.weight",
                   whole ? kv : config_.head_dim);
        }
        matrix(ours + "attn_output.weight", theirs + "o_proj.weight", hidden, q);
    }

    void feed_forward(const std::string& ours, const std::string& theirs) {
        const std::int64_t ffn = config_.ffn;
        if (traits_.fused_gate_up) {
            matrix(ours + "ffn_up.weight", theirs + "gate_up_proj.weight", 2 * ffn, config_.hidden);
        } else {
            matrix(ours + "ffn_gate.weight", theirs + "gate_proj.weight", ffn, config_.hidden);
            matrix(ours + "ffn_up.weight", theirs + "up_proj.weight", ffn, config_.hidden);
        }
        matrix(ours + "ffn_down.weight", theirs + "down_proj.weight", config_.hidden, ffn);
    }

    void experts(const std::string& ours, const std::string& theirs) {
        matrix(ours + "ffn_gate_inp.weight", theirs + "gate.weight", config_.n_experts,
               config_.hidden)
            .keep_float = true;
        stacked(ours + "ffn_gate_exps.weight", theirs, config_.mixtral ? "w1" : "gate_proj",
                config_.ffn, config_.hidden);
        stacked(ours + "ffn_up_exps.weight", theirs, config_.mixtral ? "w3" : "up_proj",
                config_.ffn, config_.hidden);
        stacked(ours + "ffn_down_exps.weight", theirs, config_.mixtral ? "w2" : "down_proj",
                config_.hidden, config_.ffn);
    }

    void stacked(const std::string& name, const std::string& theirs, const char* what,
                 std::int64_t rows, std::int64_t cols) {
        HfTensor tensor{name, {cols, rows, config_.n_experts}, {}, {rows, cols}, 0, false, false};
        for (std::int32_t e = 0; e < config_.n_experts; ++e) {
            tensor.sources.push_back(fmt::format("{}experts.{}.{}.weight", theirs, e, what));
        }
        tensors_.push_back(std::move(tensor));
    }

    const HfConfig& config_;
    const DecoderTraits& traits_;
    std::vector<HfTensor> tensors_;
};

}  // namespace

std::vector<HfTensor> hf_tensors(const HfConfig& config) {
    List list(config);
    list.matrix("token_embd.weight", "model.embed_tokens.weight", config.vocab, config.hidden);
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) list.layer(layer);
    list.vector("output_norm.weight", "model.norm.weight", config.hidden);
    if (!config.tied_embeddings) {
        list.matrix("output.weight", "lm_head.weight", config.vocab, config.hidden);
    }
    return list.take();
}

bool is_spare_hf_tensor(const HfConfig& config, std::string_view name) {
    return name.ends_with(".rotary_emb.inv_freq") ||
           (config.tied_embeddings && name == "lm_head.weight");
}

}  // namespace helix::model
