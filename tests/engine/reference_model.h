#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/model_config.h"
#include "model/tensor_type.h"
#include "model/weight_source.h"

// The forward pass of a llama model, written down plainly in double precision: no batches, no
// pages, every matrix dequantised. Independent of src/engine.

namespace helix::engine::test {

class ReferenceModel {
  public:
    using Row = std::vector<double>;

    ReferenceModel(model::WeightSource& source, const model::ModelConfig& config)
        : source_(source), c_(config) {}

    // Logits after each of the tokens.
    std::vector<Row> logits(const std::vector<std::int32_t>& tokens) {
        std::vector<Row> x;
        for (const std::int32_t token : tokens) x.push_back(matrix_row("token_embd.weight", token));
        for (std::int32_t l = 0; l < c_.n_layers; ++l) x = layer(l, x);
        const std::string head = c_.tied_embeddings ? "token_embd.weight" : "output.weight";
        std::vector<Row> result;
        for (const Row& row : x) result.push_back(times(head, norm(row, "output_norm.weight")));
        return result;
    }

    // Residual rows after one layer, of a sequence that starts at position 0.
    std::vector<Row> layer(std::int32_t l, std::vector<Row> x) {
        const std::string blk = "blk." + std::to_string(l) + ".";
        std::vector<Row> q, k, v;
        for (std::size_t p = 0; p < x.size(); ++p) {
            const Row n = norm(x[p], blk + "attn_norm.weight");
            q.push_back(rope(times(blk + "attn_q.weight", n), p));
            k.push_back(rope(times(blk + "attn_k.weight", n), p));
            v.push_back(times(blk + "attn_v.weight", n));
        }
        for (std::size_t p = 0; p < x.size(); ++p) {
            add(x[p], times(blk + "attn_output.weight", attend(q[p], k, v, p)));
            const Row n = norm(x[p], blk + "ffn_norm.weight");
            Row gate = times(blk + "ffn_gate.weight", n);
            const Row up = times(blk + "ffn_up.weight", n);
            for (std::size_t i = 0; i < gate.size(); ++i)
                gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
            add(x[p], times(blk + "ffn_down.weight", gate));
        }
        return x;
    }

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

    Row times(const std::string& name, const Row& x) {
        const Matrix& m = matrix(name);
        CHECK(x.size() == m.cols);
        Row y(m.values.size() / m.cols, 0.0);
        for (std::size_t r = 0; r < y.size(); ++r) {
            for (std::size_t i = 0; i < m.cols; ++i)
                y[r] += static_cast<double>(m.values[r * m.cols + i]) * x[i];
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
                const double a = x[head + 2 * i];
                const double b = x[head + 2 * i + 1];
                x[head + 2 * i] = a * std::cos(angle) - b * std::sin(angle);
                x[head + 2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
            }
        }
        return x;
    }

    Row attend(const Row& q, const std::vector<Row>& k, const std::vector<Row>& v,
               std::size_t position) const {
        const auto dim = static_cast<std::size_t>(c_.head_dim);
        const auto group = static_cast<std::size_t>(c_.n_heads / c_.n_kv_heads);
        Row out(q.size(), 0.0);
        for (std::size_t head = 0; head < static_cast<std::size_t>(c_.n_heads); ++head) {
            const std::size_t kv = head / group * dim;
            std::vector<double> weights;
            double sum = 0;
            for (std::size_t p = 0; p <= position; ++p) {
                double score = 0;
                for (std::size_t d = 0; d < dim; ++d) score += q[head * dim + d] * k[p][kv + d];
                weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
                sum += weights.back();
            }
            for (std::size_t p = 0; p <= position; ++p) {
                for (std::size_t d = 0; d < dim; ++d)
                    out[head * dim + d] += weights[p] / sum * v[p][kv + d];
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
};

}  // namespace helix::engine::test
