#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/model_config.h"
#include "model/tensor_type.h"
#include "model/weight_source.h"

// The forward pass of a decoder, written down plainly in double precision: no batches, no pages,
// every matrix dequantised. Independent of src/engine. Biases and norms are used where the file has
// them; what else families do in their own way is written here from their published definitions, by
// the name of the architecture.

namespace helix::engine::test {

class ReferenceModel {
  public:
    using Row = std::vector<double>;

    ReferenceModel(model::WeightSource& source, const model::ModelConfig& config)
        : source_(source), c_(config) {}

    // Logits after each of the tokens.
    std::vector<Row> logits(const std::vector<std::int32_t>& tokens) {
        const std::string head = c_.tied_embeddings ? "token_embd.weight" : "output.weight";
        std::vector<Row> result;
        for (const Row& row : hidden_states(tokens)) {
            result.push_back(times(head, row));
            for (double& logit : result.back()) logit = final_logit(logit);
        }
        return result;
    }

    // What the head gets of each of the tokens: past all layers, normed.
    std::vector<Row> hidden_states(const std::vector<std::int32_t>& tokens) {
        std::vector<Row> x = residuals(tokens);
        for (Row& row : x) row = norm(row, "output_norm.weight");
        return x;
    }

    // The same before that norm.
    std::vector<Row> residuals(const std::vector<std::int32_t>& tokens) {
        std::vector<Row> x;
        for (const std::int32_t token : tokens) {
            x.push_back(matrix_row("token_embd.weight", token));
            scale(x.back(), is({"gemma2", "gemma3", "gemma4", "gemma-embedding"})
                                ? std::sqrt(static_cast<double>(c_.hidden))
                                : number("embedding_scale", 1));
        }
        tokens_ = tokens;
        embedded_ = x;
        for (std::int32_t l = 0; l < c_.n_layers; ++l) x = layer(l, x);
        return x;
    }

    // Residual rows after one layer, of a sequence that starts at position 0.
    std::vector<Row> layer(std::int32_t l, std::vector<Row> x) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        std::vector<Row> q, k, v;
        for (std::size_t p = 0; p < x.size(); ++p) {
            const Row n = norm_if_there(x[p], blk + "attn_norm.weight");
            const std::vector<Row> heads = queries_keys_values(l, n);
            q.push_back(turns(l) ? rope(heads[0], p, l) : heads[0]);
            if (shares(l)) continue;
            k.push_back(turns(l) ? rope(heads[1], p, l) : heads[1]);
            v.push_back(heads[2]);
            if (is({"llama4"})) finish_as_llama4(l, p, q.back(), k.back());
        }
        if (shares(l)) {
            k = kept_.at(source_of(l)).first;
            v = kept_.at(source_of(l)).second;
        }
        kept_[l] = {k, v};
        const auto window = static_cast<std::size_t>(is_full(l) ? 0 : c_.sliding_window);
        for (std::size_t p = 0; p < x.size(); ++p) {
            std::size_t from = window > 0 && p + 1 > window ? p + 1 - window : 0;
            if (is({"llama4"}) && window > 0) from = p - p % window;
            std::size_t to = p;
            // EmbeddingGemma: as far as half of the window to both sides, or everything.
            if (is({"gemma-embedding"})) {
                const std::size_t half = window > 0 ? window / 2 : x.size();
                from = p > half ? p - half : 0;
                to = std::min(x.size() - 1, p + half);
            }
            const Row before = x[p];
            const std::string sinks = blk + "attn_sinks.weight";
            const Row sink = has(sinks) ? matrix_row(sinks, 0) : Row();
            Row attended = times(blk + "attn_output.weight", attend(l, q[p], k, v, from, to, sink));
            add_bias(attended, blk + "attn_output.bias", 0);
            // In GLM 4.5 and gpt-oss this norm is of what the feed-forward reads.
            const bool feeds = is({"glm4moe", "gpt-oss"});
            if (!feeds) attended = norm_if_there(attended, blk + "post_attention_norm.weight");
            scale(attended, number("residual_scale", 1));
            add(x[p], attended);
            // Command R's two branches read the same.
            const Row n = is({"command-r", "cohere2"})
                              ? norm(before, blk + "attn_norm.weight")
                              : norm_if_there(x[p], blk + (feeds ? "post_attention_norm.weight"
                                                                 : "ffn_norm.weight"));
            const bool mixed = has(blk + "pre_ffw_norm_2.weight");
            Row fed = norm_if_there(mixed ? dense_and_experts(blk, x[p]) : feed_forward(blk, n),
                                    blk + "post_ffw_norm.weight");
            scale(fed, number("residual_scale", 1));
            add(x[p], fed);
            if (has(blk + "inp_gate.weight")) add(x[p], layer_input(l, p, x[p]));
            const std::string factor = blk + "layer_output_scale.weight";
            if (has(factor)) scale(x[p], matrix_row(factor, 0)[0]);
        }
        return x;
    }

    // The products of a tensor's rows with x, and one of the rows.
    Row products(const std::string& tensor, const Row& x) { return times(tensor, x); }
    Row row_of(const std::string& tensor, std::int32_t row) { return matrix_row(tensor, row); }

    // Told of every product: the tensor, the first of its rows, and what they are multiplied by.
    std::function<void(const std::string& tensor, std::size_t first, const Row& x)> on_product;

    // How close the closest decision of a router was: the last chosen score less the first not
    // chosen one, of all rows so far.
    double closest_choice() const { return closest_choice_; }

  private:
    struct Matrix {
        std::size_t cols = 0;
        std::vector<float> values;
    };

    const Matrix& matrix(const std::string& name) {
        auto found = cache_.find(name);
        if (found != cache_.end()) return found->second;
        const model::TensorInfo* info = source_.file().find_tensor(name);
        CHECK(info != nullptr);
        Matrix m;
        m.cols = static_cast<std::size_t>(info->row_length());
        m.values.resize(m.cols * static_cast<std::size_t>(info->rows()));
        auto bytes = source_.tensor(name);
        CHECK(bytes.ok());
        model::dequantize_row(info->type, *bytes, m.values.data());
        const std::string factors = model::factor_tensor(info->type, name);
        if (has(factors)) multiply(m, matrix(factors).values);
        return cache_.emplace(name, std::move(m)).first->second;
    }

    // By a factor for each of the matrices in a tensor.
    static void multiply(Matrix& m, const std::vector<float>& factors) {
        const std::size_t each = m.values.size() / factors.size();
        for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] *= factors[i / each];
    }

    Row matrix_row(const std::string& name, std::int32_t row) {
        const Matrix& m = matrix(name);
        const auto first = m.values.begin() + static_cast<std::ptrdiff_t>(m.cols) * row;
        return Row(first, first + static_cast<std::ptrdiff_t>(m.cols));
    }

    bool has(const std::string& name) const { return source_.file().find_tensor(name) != nullptr; }

    bool is(std::initializer_list<const char*> names) const {
        return std::find(names.begin(), names.end(), c_.architecture) != names.end();
    }
    bool is_gemma3() const { return is({"gemma3", "gemma-embedding"}); }
    // The number at a key of the architecture's.
    double number(const std::string& rest, double otherwise) const {
        const auto value = source_.file().get_float(c_.architecture + "." + rest);
        return value.ok() ? *value : otherwise;
    }

    // Layers that attend to all positions.
    bool is_full(std::int32_t l) const {
        if (is({"gemma4"})) {
            const auto* windowed = source_.file().find("gemma4.attention.sliding_window_pattern");
            return !std::get<std::vector<bool>>(
                std::get<model::MetaArray>(*windowed))[std::size_t(l)];
        }
        const int period = is({"gemma2", "gpt-oss"}) ? 2 : is_gemma3() ? 6 : 4;
        const auto said =
            source_.file().get_int(c_.architecture + ".attention.sliding_window_pattern");
        if (is({"gemma2", "olmo2", "cohere2", "gpt-oss", "llama4"}) || is_gemma3())
            return (l + 1) % (said.ok() ? *said : period) == 0;
        return !c_.full_attention.empty() && c_.full_attention[std::size_t(l)];
    }
    // Layers with rotary embeddings.
    bool turns(std::int32_t l) const {
        if (is({"smollm3", "llama4"})) return l % 4 != 3;
        return !is({"cohere2"}) || !is_full(l);
    }

    // Llama 4 norms what it has turned, without weights, unless it has 128 experts (ours may say
    // so, too), and multiplies other queries by a temperature.
    void finish_as_llama4(std::int32_t l, std::size_t position, Row& q, Row& k) {
        const auto said = source_.file().get_bool("llama4.attention.unweighted_qk_norm");
        const bool norms = said.ok() ? *said : c_.n_experts != 128;
        if (turns(l) && norms) {
            norm_heads(q, head_size(l));
            norm_heads(k, head_size(l));
        }
        if (turns(l)) return;
        const auto length = source_.file().get_int("llama4.attention.temperature_length");
        const std::size_t steps =
            (position + 1) / static_cast<std::size_t>(length.ok() ? *length : 8192);
        scale(q, 1 + number("attention.temperature_scale", 0.1) *
                         std::log(static_cast<double>(steps) + 1));
    }

    void norm_heads(Row& x, std::size_t dim) const {
        for (std::size_t head = 0; head < x.size(); head += dim) {
            double squares = 0;
            for (std::size_t d = 0; d < dim; ++d) squares += x[head + d] * x[head + d];
            const double root = std::sqrt(squares / static_cast<double>(dim) +
                                          static_cast<double>(c_.norm_epsilon));
            for (std::size_t d = 0; d < dim; ++d) x[head + d] /= root;
        }
    }

    double final_logit(double logit) const {
        if (is({"granite", "granitemoe"})) return logit / number("logit_scale", 1);
        if (is({"command-r", "cohere2"})) return logit * number("logit_scale", 1);
        const double cap = number("final_logit_softcapping", 0);
        return cap > 0 ? cap * std::tanh(logit / cap) : logit;
    }

    static void scale(Row& x, double factor) {
        for (double& value : x) value *= factor;
    }
    static Row part(const Row& x, std::size_t first, std::size_t n) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
        return Row(begin, begin + static_cast<std::ptrdiff_t>(n));
    }

    // Of a head of the layer.
    std::size_t head_size(std::int32_t l) const {
        if (!is({"gemma4"}) || is_full(l)) return static_cast<std::size_t>(c_.head_dim);
        const auto said = source_.file().get_int("gemma4.attention.key_length_swa");
        CHECK(said.ok());
        return static_cast<std::size_t>(*said);
    }

    std::vector<Row> queries_keys_values(std::int32_t l, const Row& n) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        const std::size_t dim = head_size(l);
        if (shares(l)) return {heads_of(blk + "attn_q", n, dim)};
        if (is({"gemma4"})) {
            const bool shares = !has(blk + "attn_v.weight");
            Row v = times(blk + (shares ? "attn_k.weight" : "attn_v.weight"), n);
            norm_heads(v, dim);
            return {heads_of(blk + "attn_q", n, dim), heads_of(blk + "attn_k", n, dim), v};
        }
        if (!has(blk + "attn_qkv.weight"))
            return {heads_of(blk + "attn_q", n, dim), heads_of(blk + "attn_k", n, dim),
                    heads_of(blk + "attn_v", n, dim)};
        const Row all = times(blk + "attn_qkv.weight", n);
        const auto q = static_cast<std::size_t>(c_.n_heads * c_.head_dim);
        const auto kv = static_cast<std::size_t>(c_.n_kv_heads * c_.head_dim);
        return {part(all, 0, q), part(all, q, kv), part(all, q + kv, kv)};
    }

    Row feed_forward(const std::string& blk, const Row& n) {
        if (has(blk + "ffn_gate_inp.weight")) return experts(blk, n, n);
        if (has(blk + "ffn_gate.weight")) return gated(blk, "", 1, 0, n);
        if (is({"nemotron"})) {
            Row up = times(blk + "ffn_up.weight", n);
            for (double& value : up) value = value > 0 ? value * value : 0;
            return times(blk + "ffn_down.weight", up);
        }
        const auto ffn = static_cast<std::size_t>(c_.ffn);
        const Row both = times(blk + "ffn_up.weight", n);
        Row gate = part(both, 0, ffn);
        for (std::size_t i = 0; i < ffn; ++i) gate[i] = activation(gate[i]) * both[ffn + i];
        return times(blk + "ffn_down.weight", gate);
    }

    // Gemma 4's last layers may attend to the keys and values of an earlier one: the last of their
    // kind of window that has its own.
    bool shares(std::int32_t l) const {
        const auto said = source_.file().get_int(c_.architecture + ".attention.shared_kv_layers");
        return said.ok() && l >= c_.n_layers - *said;
    }
    std::int32_t source_of(std::int32_t l) const {
        std::int32_t source = l - 1;
        while (shares(source) || is_full(source) != is_full(l)) --source;
        return source;
    }

    // And a layer may add what it makes of its own input of the token.
    Row layer_input(std::int32_t l, std::size_t p, const Row& x) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        Row gate = times(blk + "inp_gate.weight", x);
        const std::size_t width = gate.size();
        const std::size_t first = static_cast<std::size_t>(l) * width;
        Row input = times("per_layer_model_proj.weight", first, width, embedded_[p]);
        scale(input, 1 / std::sqrt(static_cast<double>(c_.hidden)));
        input = norm(input, "per_layer_proj_norm.weight");
        Row looked_up = part(matrix_row("per_layer_token_embd.weight", tokens_[p]), first, width);
        scale(looked_up, std::sqrt(static_cast<double>(width)));
        add(input, looked_up);
        scale(input, 1 / std::sqrt(2.0));
        for (std::size_t i = 0; i < width; ++i) gate[i] = activation(gate[i]) * input[i];
        return norm(times(blk + "proj.weight", gate), blk + "post_norm.weight");
    }

    // Gemma 4's: a feed-forward and experts side by side.
    Row dense_and_experts(const std::string& blk, const Row& x) {
        Row dense = gated(blk, "", 1, 0, norm(x, blk + "ffn_norm.weight"));
        dense = norm(dense, blk + "post_ffw_norm_1.weight");
        Row routed = norm(x, blk + "ffn_gate_inp.scale");
        scale(routed, 1 / std::sqrt(static_cast<double>(c_.hidden)));
        const Row read = norm(x, blk + "pre_ffw_norm_2.weight");
        add(dense, norm(experts(blk, routed, read), blk + "post_ffw_norm_2.weight"));
        return dense;
    }

    // SiLU, and Gemma's GELU by tanh.
    double activation(double x) const {
        if (!is({"gemma2", "gemma4"}) && !is_gemma3()) return x / (1 + std::exp(-x));
        const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return 0.5 * x * (1 + std::tanh(inner));
    }

    Row times(const std::string& name, const Row& x) {
        return times(name, 0, matrix(name).values.size() / matrix(name).cols, x);
    }

    // The matrix of n rows that begins at this row of the tensor.
    Row times(const std::string& name, std::size_t first, std::size_t n, const Row& x) {
        const Matrix& m = matrix(name);
        CHECK(x.size() == m.cols);
        if (on_product) on_product(name, first, x);
        Row y(n, 0.0);
        for (std::size_t r = 0; r < n; ++r) {
            for (std::size_t i = 0; i < m.cols; ++i)
                y[r] += static_cast<double>(m.values[(first + r) * m.cols + i]) * x[i];
        }
        return y;
    }

    // Queries, keys or values of a row, before rope.
    Row heads_of(const std::string& name, const Row& x, std::size_t head_dim) {
        Row y = times(name + ".weight", x);
        if (has(name + ".bias")) {
            const Matrix& bias = matrix(name + ".bias");
            for (std::size_t i = 0; i < y.size(); ++i) y[i] += static_cast<double>(bias.values[i]);
        }
        if (!has(name + "_norm.weight")) return y;
        if (is({"olmo2", "minimax-m2"})) return norm(y, name + "_norm.weight");
        const auto dim = static_cast<std::ptrdiff_t>(head_dim);
        std::size_t n = 0;
        for (auto head = y.begin(); head != y.end(); head += dim, ++n) {
            // Command R+ has other weights for each head.
            const Row normed =
                norm(Row(head, head + dim), name + "_norm.weight", is({"command-r"}) ? n : 0);
            std::copy(normed.begin(), normed.end(), head);
        }
        return y;
    }

    // One gated feed-forward, whose tensors have this ending and hold those of n experts.
    Row gated(const std::string& blk, const std::string& ending, std::size_t n, std::size_t expert,
              const Row& x) {
        const auto name = [&](const char* what) {
            return blk + "ffn_" + what + ending + ".weight";
        };
        const std::size_t ffn = matrix(name("down")).cols;
        const bool fused = has(name("gate_up"));  // of an expert gate first
        const std::size_t step = fused ? 2 * ffn : ffn;
        CHECK(matrix(name(fused ? "gate_up" : "gate")).values.size() == n * step * x.size());
        Row gate = times(name(fused ? "gate_up" : "gate"), expert * step, ffn, x);
        Row up = times(name(fused ? "gate_up" : "up"), expert * step + (fused ? ffn : 0), ffn, x);
        add_bias(gate, blk + "ffn_gate" + ending + ".bias", expert);
        add_bias(up, blk + "ffn_up" + ending + ".bias", expert);
        for (std::size_t i = 0; i < ffn; ++i) gate[i] = gated_value(gate[i], up[i]);
        Row y = times(name("down"), expert * x.size(), x.size(), gate);
        add_bias(y, blk + "ffn_down" + ending + ".bias", expert);
        return y;
    }

    // gpt-oss clamps both factors.
    double gated_value(double gate, double up) const {
        if (!is({"gpt-oss"})) return activation(gate) * up;
        gate = std::min(gate, 7.0);
        up = std::clamp(up, -7.0, 7.0);
        return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
    }

    // Where the file has it: the row of a bias.
    void add_bias(Row& x, const std::string& name, std::size_t row) {
        if (has(name)) add(x, matrix_row(name, static_cast<std::int32_t>(row)));
    }

    // GLM 4.5, MiniMax M2 and Llama 4 take sigmoids of the scores, the others their softmax; Llama
    // 4 multiplies what experts read by them.
    Row experts(const std::string& blk, const Row& routed, const Row& x) {
        const bool sigmoid = is({"glm4moe", "minimax-m2", "llama4"});
        Row weight = times(blk + "ffn_gate_inp.weight", routed);
        add_bias(weight, blk + "ffn_gate_inp.bias", 0);
        double all = 0;
        for (double& w : weight) all += (w = sigmoid ? 1 / (1 + std::exp(-w)) : std::exp(w));
        Row key = weight;
        for (double& k : key) k = sigmoid ? k : std::log(k);
        if (has(blk + "exp_probs_b.bias")) add(key, matrix_row(blk + "exp_probs_b.bias", 0));
        std::vector<std::size_t> order = candidates(key);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
        const auto used = static_cast<std::size_t>(c_.n_experts_used);
        if (used < order.size()) {
            closest_choice_ = std::min(closest_choice_, key[order[used - 1]] - key[order[used]]);
        }
        double sum = 0;
        for (std::size_t i = 0; i < used; ++i) sum += weight[order[i]];
        if (!c_.normalise_expert_weights) sum = sigmoid ? 1 : all;
        Row y(x.size(), 0.0);
        for (std::size_t i = 0; i < used; ++i) {
            const double share = weight[order[i]] / sum * number("expert_weights_scale", 1);
            Row read = x;
            if (is({"llama4"})) scale(read, share);
            Row one = gated(blk, "_exps", weight.size(), order[i], read);
            if (!is({"llama4"})) scale(one, share);
            const std::string factors = blk + "ffn_down_exps.scale";
            if (has(factors)) scale(one, matrix_row(factors, 0)[order[i]]);
            add(y, one);
        }
        if (!has(blk + "ffn_gate_shexp.weight")) return y;
        Row shared = gated(blk, "_shexp", 1, 0, x);
        const std::string gate = blk + "ffn_gate_inp_shexp.weight";
        if (has(gate)) scale(shared, 1 / (1 + std::exp(-times(gate, x)[0])));
        add(y, shared);
        return y;
    }

    // The experts that may be chosen: all, or those of the groups whose two best sum up highest.
    std::vector<std::size_t> candidates(const Row& key) {
        const auto said = [&](const char* rest) {
            const auto value = source_.file().get_int(c_.architecture + "." + rest);
            return value.ok() ? static_cast<std::size_t>(*value) : 1;
        };
        const std::size_t n = said("expert_group_count"), used = said("expert_group_used_count");
        const std::size_t each = key.size() / n;
        Row sums;
        for (std::size_t g = 0; n > 1 && g < n; ++g) {
            Row of = part(key, g * each, each);
            std::sort(of.begin(), of.end());
            sums.push_back(of[each - 1] + of[each - 2]);
        }
        std::vector<std::size_t> groups, experts;
        for (std::size_t g = 0; g < n; ++g) groups.push_back(g);
        std::stable_sort(groups.begin(), groups.end(),
                         [&](std::size_t a, std::size_t b) { return n > 1 && sums[a] > sums[b]; });
        if (used < n) {
            closest_choice_ =
                std::min(closest_choice_, sums[groups[used - 1]] - sums[groups[used]]);
        }
        groups.resize(used);
        std::sort(groups.begin(), groups.end());
        for (const std::size_t g : groups) {
            for (std::size_t e = 0; e < each; ++e) experts.push_back(g * each + e);
        }
        return experts;
    }

    Row norm_if_there(const Row& x, const std::string& weight) {
        return has(weight) ? norm(x, weight) : x;
    }

    // An RMS norm, and the LayerNorm of Command R and, with a bias, of Nemotron.
    // row: of the weights.
    Row norm(const Row& x, const std::string& weight, std::size_t row = 0) {
        Row y = x;
        if (is({"command-r", "cohere2", "nemotron"})) {
            double sum = 0;
            for (const double v : x) sum += v;
            for (double& v : y) v -= sum / static_cast<double>(x.size());
        }
        double squares = 0;
        for (const double v : y) squares += v * v;
        const double mean = squares / static_cast<double>(x.size());
        const Matrix& w = matrix(weight);
        for (std::size_t i = 0; i < x.size(); ++i) {
            y[i] *= static_cast<double>(w.values[row * x.size() + i]) /
                    std::sqrt(mean + static_cast<double>(c_.norm_epsilon));
        }
        if (is({"nemotron"})) add_bias(y, weight.substr(0, weight.size() - 6) + "bias", 0);
        return y;
    }

    Row rope(Row x, std::size_t position, std::int32_t l) const {
        const std::size_t head_dim = head_size(l);
        // OLMo 3 and Gemma 3 scale the layers without a window alone; Gemma 3 turns the others by
        // another base.
        const bool local = c_.sliding_window > 0 && !is_full(l);
        const bool own_base = local && (is({"gemma4"}) || is_gemma3());
        const bool plain = own_base || (local && is({"olmo2"}));
        const double base = own_base ? 10000.0 : static_cast<double>(c_.rope_base);
        const std::size_t rope_dim =
            is({"gemma4"}) ? head_dim : static_cast<std::size_t>(c_.rope_dim);
        for (std::size_t head = 0; head < x.size(); head += head_dim) {
            for (std::size_t i = 0; 2 * i < rope_dim; ++i) {
                double angle =
                    static_cast<double>(position) *
                    (plain ? 1.0 : static_cast<double>(c_.rope_scale)) /
                    std::pow(base, 2.0 * static_cast<double>(i) / static_cast<double>(rope_dim));
                if (!plain && !c_.rope_factors.empty())
                    angle /= static_cast<double>(c_.rope_factors[i]);
                const bool adjacent = c_.rope_pairs == model::RopePairs::adjacent;
                const std::size_t first = head + (adjacent ? 2 * i : i);
                const std::size_t second = adjacent ? first + 1 : first + rope_dim / 2;
                const auto magnitude = plain ? 1.0 : static_cast<double>(c_.rope_magnitude);
                const double a = x[first] * magnitude;
                const double b = x[second] * magnitude;
                x[first] = a * std::cos(angle) - b * std::sin(angle);
                x[second] = a * std::sin(angle) + b * std::cos(angle);
            }
        }
        return x;
    }

    // Over positions from `from` to `to`. sinks: of each head, or none.
    Row attend(std::int32_t l, const Row& q, const std::vector<Row>& k, const std::vector<Row>& v,
               std::size_t from, std::size_t to, const Row& sinks) const {
        const std::size_t dim = head_size(l);
        const std::size_t group = q.size() / k[0].size();
        // Granite says it, Gemma 4 does not scale; the largest Gemmas divide by the root of hidden
        // / heads.
        const bool by_hidden =
            (is({"gemma2"}) && c_.n_layers == 46) || (is({"gemma3"}) && c_.n_layers == 62);
        const double usual = 1 / std::sqrt(by_hidden ? static_cast<double>(c_.hidden) / c_.n_heads
                                                     : static_cast<double>(dim));
        const double factor = number("attention.scale", is({"gemma4"}) ? 1 : usual);
        const double cap = number("attn_logit_softcapping", 0);
        Row out(q.size(), 0.0);
        for (std::size_t head = 0; head < static_cast<std::size_t>(c_.n_heads); ++head) {
            const std::size_t kv = head / group * dim;
            std::vector<double> weights;
            double sum = sinks.empty() ? 0 : std::exp(sinks[head]);
            for (std::size_t p = from; p <= to; ++p) {
                double score = 0;
                for (std::size_t d = 0; d < dim; ++d) score += q[head * dim + d] * k[p][kv + d];
                score *= factor;
                weights.push_back(std::exp(cap > 0 ? cap * std::tanh(score / cap) : score));
                sum += weights.back();
            }
            for (std::size_t p = from; p <= to; ++p) {
                for (std::size_t d = 0; d < dim; ++d)
                    out[head * dim + d] += weights[p - from] / sum * v[p][kv + d];
            }
        }
        return out;
    }

    static void add(Row& x, const Row& y) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    }

    model::WeightSource& source_;
    const model::ModelConfig& c_;
    std::map<std::string, Matrix> cache_;
    std::vector<std::int32_t> tokens_;  // of the rows, and their embeddings
    std::vector<Row> embedded_;
    std::map<std::int32_t, std::pair<std::vector<Row>, std::vector<Row>>> kept_;  // keys, values
    double closest_choice_ = std::numeric_limits<double>::infinity();
};

}  // namespace helix::engine::test
