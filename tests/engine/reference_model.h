#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/model_config.h"
#include "model/tensor_type.h"
#include "model/weight_source.h"

// The forward pass of a decoder, written down plainly in double precision: no batches, no pages,
// every matrix dequantised. Independent of src/engine. Biases and head norms are used where the
// file has them.

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
        for (const Row& row : hidden_states(tokens)) result.push_back(times(head, row));
        return result;
    }

    // What the head gets of each of the tokens: past all layers, normed.
    std::vector<Row> hidden_states(const std::vector<std::int32_t>& tokens) {
        std::vector<Row> x;
        for (const std::int32_t token : tokens) x.push_back(matrix_row("token_embd.weight", token));
        for (std::int32_t l = 0; l < c_.n_layers; ++l) x = layer(l, x);
        for (Row& row : x) row = norm(row, "output_norm.weight");
        return x;
    }

    // Residual rows after one layer, of a sequence that starts at position 0.
    std::vector<Row> layer(std::int32_t l, std::vector<Row> x) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        std::vector<Row> q, k, v;
        for (std::size_t p = 0; p < x.size(); ++p) {
            const Row n = norm(x[p], blk + "attn_norm.weight");
            q.push_back(rope(heads_of(blk + "attn_q", n), p));
            k.push_back(rope(heads_of(blk + "attn_k", n), p));
            v.push_back(heads_of(blk + "attn_v", n));
        }
        const bool full = !c_.full_attention.empty() && c_.full_attention[std::size_t(l)];
        const auto window = static_cast<std::size_t>(full ? 0 : c_.sliding_window);
        for (std::size_t p = 0; p < x.size(); ++p) {
            const std::size_t from = window > 0 && p + 1 > window ? p + 1 - window : 0;
            add(x[p], times(blk + "attn_output.weight", attend(q[p], k, v, from, p)));
            const Row n = norm(x[p], blk + "ffn_norm.weight");
            add(x[p], has(blk + "ffn_gate_inp.weight")
                          ? experts(blk, n)
                          : gated(blk + "ffn_gate.weight", blk + "ffn_up.weight",
                                  blk + "ffn_down.weight", 0, n));
        }
        return x;
    }

    // The products of a tensor's rows with x, and one of the rows.
    Row products(const std::string& tensor, const Row& x) { return times(tensor, x); }
    Row row_of(const std::string& tensor, std::int32_t row) { return matrix_row(tensor, row); }

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
        return cache_.emplace(name, std::move(m)).first->second;
    }

    Row matrix_row(const std::string& name, std::int32_t row) {
        const Matrix& m = matrix(name);
        const auto first = m.values.begin() + static_cast<std::ptrdiff_t>(m.cols) * row;
        return Row(first, first + static_cast<std::ptrdiff_t>(m.cols));
    }

    bool has(const std::string& name) const { return source_.file().find_tensor(name) != nullptr; }

    Row times(const std::string& name, const Row& x) {
        return times(name, 0, matrix(name).values.size() / matrix(name).cols, x);
    }

    // The matrix of n rows that begins at this row of the tensor.
    Row times(const std::string& name, std::size_t first, std::size_t n, const Row& x) {
        const Matrix& m = matrix(name);
        CHECK(x.size() == m.cols);
        Row y(n, 0.0);
        for (std::size_t r = 0; r < n; ++r) {
            for (std::size_t i = 0; i < m.cols; ++i)
                y[r] += static_cast<double>(m.values[(first + r) * m.cols + i]) * x[i];
        }
        return y;
    }

    // Queries, keys or values of a row, before rope.
    Row heads_of(const std::string& name, const Row& x) {
        Row y = times(name + ".weight", x);
        if (has(name + ".bias")) {
            const Matrix& bias = matrix(name + ".bias");
            for (std::size_t i = 0; i < y.size(); ++i) y[i] += static_cast<double>(bias.values[i]);
        }
        if (!has(name + "_norm.weight")) return y;
        const auto dim = static_cast<std::ptrdiff_t>(c_.head_dim);
        for (auto head = y.begin(); head != y.end(); head += dim) {
            const Row normed = norm(Row(head, head + dim), name + "_norm.weight");
            std::copy(normed.begin(), normed.end(), head);
        }
        return y;
    }

    // One gated feed-forward; of expert number `expert` where the tensors hold several.
    Row gated(const std::string& gate_name, const std::string& up_name,
              const std::string& down_name, std::size_t expert, const Row& x) {
        const auto ffn = static_cast<std::size_t>(c_.ffn);
        Row gate = times(gate_name, expert * ffn, ffn, x);
        const Row up = times(up_name, expert * ffn, ffn, x);
        for (std::size_t i = 0; i < ffn; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
        return times(down_name, expert * x.size(), x.size(), gate);
    }

    Row experts(const std::string& blk, const Row& x) {
        Row probability = times(blk + "ffn_gate_inp.weight", x);
        double all = 0;
        for (double& p : probability) all += (p = std::exp(p));
        for (double& p : probability) p /= all;
        std::vector<std::size_t> order;
        for (std::size_t e = 0; e < probability.size(); ++e) order.push_back(e);
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return probability[a] > probability[b];
        });
        const auto used = static_cast<std::size_t>(c_.n_experts_used);
        if (used < order.size()) {
            closest_choice_ = std::min(closest_choice_, std::log(probability[order[used - 1]]) -
                                                            std::log(probability[order[used]]));
        }
        double sum = 0;
        for (std::size_t i = 0; i < used; ++i) sum += probability[order[i]];
        Row y(x.size(), 0.0);
        for (std::size_t i = 0; i < used; ++i) {
            Row one = gated(blk + "ffn_gate_exps.weight", blk + "ffn_up_exps.weight",
                            blk + "ffn_down_exps.weight", order[i], x);
            const double weight = probability[order[i]] / (c_.normalise_expert_weights ? sum : 1.0);
            for (double& v : one) v *= weight;
            add(y, one);
        }
        return y;
    }

    Row norm(const Row& x, const std::string& weight) {
        double squares = 0;
        for (const double v : x) squares += v * v;
        const double mean = squares / static_cast<double>(x.size());
        Row y = x;
        const Matrix& w = matrix(weight);
        for (std::size_t i = 0; i < x.size(); ++i) {
            y[i] *= static_cast<double>(w.values[i]) /
                    std::sqrt(mean + static_cast<double>(c_.norm_epsilon));
        }
        return y;
    }

    Row rope(Row x, std::size_t position) const {
        const auto head_dim = static_cast<std::size_t>(c_.head_dim);
        for (std::size_t head = 0; head < x.size(); head += head_dim) {
            for (std::size_t i = 0; 2 * i < static_cast<std::size_t>(c_.rope_dim); ++i) {
                double angle =
                    static_cast<double>(position) * static_cast<double>(c_.rope_scale) /
                    std::pow(static_cast<double>(c_.rope_base),
                             2.0 * static_cast<double>(i) / static_cast<double>(c_.rope_dim));
                if (!c_.rope_factors.empty()) angle /= static_cast<double>(c_.rope_factors[i]);
                const bool adjacent = c_.rope_pairs == model::RopePairs::adjacent;
                const std::size_t first = head + (adjacent ? 2 * i : i);
                const std::size_t second =
                    adjacent ? first + 1 : first + static_cast<std::size_t>(c_.rope_dim) / 2;
                const auto magnitude = static_cast<double>(c_.rope_magnitude);
                const double a = x[first] * magnitude;
                const double b = x[second] * magnitude;
                x[first] = a * std::cos(angle) - b * std::sin(angle);
                x[second] = a * std::sin(angle) + b * std::cos(angle);
            }
        }
        return x;
    }

    Row attend(const Row& q, const std::vector<Row>& k, const std::vector<Row>& v, std::size_t from,
               std::size_t position) const {
        const auto dim = static_cast<std::size_t>(c_.head_dim);
        const auto group = static_cast<std::size_t>(c_.n_heads / c_.n_kv_heads);
        Row out(q.size(), 0.0);
        for (std::size_t head = 0; head < static_cast<std::size_t>(c_.n_heads); ++head) {
            const std::size_t kv = head / group * dim;
            std::vector<double> weights;
            double sum = 0;
            for (std::size_t p = from; p <= position; ++p) {
                double score = 0;
                for (std::size_t d = 0; d < dim; ++d) score += q[head * dim + d] * k[p][kv + d];
                weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
                sum += weights.back();
            }
            for (std::size_t p = from; p <= position; ++p) {
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
    double closest_choice_ = std::numeric_limits<double>::infinity();
};

}  // namespace helix::engine::test
