#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "engine/arch/blocks.h"

namespace helix::engine {
namespace {

using base::size_of;

// The numbers of the `count` highest scores, ascending; of equal ones the lower. Scores that are
// no numbers come last.
void choose(std::span<const float> scores, std::span<std::int32_t> chosen) {
    const auto taken_end = [&](std::size_t n) { return chosen.begin() + std::ptrdiff_t(n); };
    for (std::size_t n = 0; n < chosen.size(); ++n) {
        std::int32_t best = -1;
        for (std::size_t e = 0; e < scores.size(); ++e) {
            const auto expert = static_cast<std::int32_t>(e);
            if (std::find(chosen.begin(), taken_end(n), expert) != taken_end(n)) continue;
            const bool first_number =
                best >= 0 && std::isnan(scores[size_of(best)]) && !std::isnan(scores[e]);
            if (best < 0 || first_number || scores[e] > scores[size_of(best)]) best = expert;
        }
        chosen[n] = best;
    }
    std::sort(chosen.begin(), chosen.end());
}

}  // namespace

std::vector<std::string> ExpertWeights::tensors() {
    return {"ffn_norm.weight", "ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight",
            "ffn_down_exps.weight"};
}

base::Result<ExpertWeights> ExpertWeights::load(WeightLoader& loader,
                                                const model::ModelConfig& config,
                                                std::int32_t layer) {
    const auto name = [layer](const char* what) { return layer_tensor(layer, what); };
    const std::int64_t n = config.n_experts;
    const std::int64_t hidden = config.hidden;
    ExpertWeights weights;
    TRY(weights.norm, loader.vector(name("ffn_norm.weight"), hidden));
    TRY(weights.router, loader.matrix(name("ffn_gate_inp.weight"), n, hidden));
    TRY(weights.gate, loader.matrices(name("ffn_gate_exps.weight"), n, config.ffn, hidden));
    TRY(weights.up, loader.matrices(name("ffn_up_exps.weight"), n, config.ffn, hidden));
    TRY(weights.down, loader.matrices(name("ffn_down_exps.weight"), n, hidden, config.ffn));
    return weights;
}

void ExpertRunner::run(const Device& device, const model::ModelConfig& config,
                       const ExpertWeights& weights, const LayerRows& rows, NormedRows& normed) {
    const std::int64_t hidden = config.hidden;
    normed.run(device, rows, weights.norm, config.norm_epsilon);
    make_room(scores_, rows.rows * config.n_experts);
    const ops::MatmulJob router[] = {{&weights.router, {scores_.data(), config.n_experts, false}}};
    ops::matmul(device.kernels, device.pool, normed.rows(), router);
    route(device, config, rows.rows);
    collect_visits(config, rows.rows);

    const std::int64_t visits = std::ssize(visits_);
    make_room(inputs_, visits * hidden);
    make_room(outputs_, visits * hidden);
    device.pool.run(visits, [&](std::int64_t i, int) {
        std::copy_n(normed.data() + visits_[size_of(i)].row * hidden, hidden,
                    inputs_.data() + i * hidden);
    });
    compute(device, config, weights);
    // In ascending order of a row's experts, whoever else visited them.
    const std::int64_t used = config.n_experts_used;
    device.pool.run(rows.rows, [&](std::int64_t row, int) {
        float* to = rows.hidden.data() + row * hidden;
        for (std::int64_t n = 0; n < used; ++n) {
            const std::int64_t visit = visit_of_[size_of(row * used + n)];
            const float weight = visits_[size_of(visit)].weight;
            const float* from = outputs_.data() + visit * hidden;
            for (std::int64_t i = 0; i < hidden; ++i) to[i] += weight * from[i];
        }
    });
}

// The experts of every row and their weights.
void ExpertRunner::route(const Device& device, const model::ModelConfig& config,
                         std::int64_t rows) {
    const std::int64_t n = config.n_experts;
    const std::int64_t used = config.n_experts_used;
    chosen_.resize(size_of(rows * used));
    chosen_weights_.resize(size_of(rows * used));
    device.pool.run(rows, [&](std::int64_t row, int) {
        const auto scores = std::span(scores_).subspan(size_of(row * n), size_of(n));
        const auto chosen = std::span(chosen_).subspan(size_of(row * used), size_of(used));
        const auto weights = std::span(chosen_weights_).subspan(size_of(row * used), size_of(used));
        choose(scores, chosen);
        float top = -std::numeric_limits<float>::infinity();
        for (const std::int32_t expert : chosen) top = std::max(top, scores[size_of(expert)]);
        device.kernels.exp_row(scores.data(), n, top, 1.0F, scores.data());
        float sum = 0;
        if (config.normalise_expert_weights) {
            for (const std::int32_t expert : chosen) sum += scores[size_of(expert)];
        } else {
            for (const float weight : scores) sum += weight;
        }
        for (std::size_t i = 0; i < chosen.size(); ++i)
            weights[i] = scores[size_of(chosen[i])] / sum;
    });
}

// Sorts the visits by expert.
void ExpertRunner::collect_visits(const model::ModelConfig& config, std::int64_t rows) {
    const std::int64_t used = config.n_experts_used;
    first_visit_.assign(size_of(config.n_experts) + 1, 0);
    for (const std::int32_t expert : chosen_) ++first_visit_[size_of(expert) + 1];
    for (std::size_t e = 1; e < first_visit_.size(); ++e) first_visit_[e] += first_visit_[e - 1];
    visits_.resize(chosen_.size());
    visit_of_.resize(chosen_.size());
    std::vector<std::int64_t> next(first_visit_.begin(), first_visit_.end() - 1);
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t n = 0; n < used; ++n) {
            const std::size_t at = size_of(row * used + n);
            const std::int64_t visit = next[size_of(chosen_[at])]++;
            visits_[size_of(visit)] = {row, chosen_weights_[at]};
            visit_of_[at] = visit;
        }
    }
}

// outputs_ = feed-forward of every visit's expert on its row of inputs_.
void ExpertRunner::compute(const Device& device, const model::ModelConfig& config,
                           const ExpertWeights& weights) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t visits = std::ssize(visits_);
    make_room(gate_, visits * ffn);
    make_room(up_, visits * ffn);
    const auto add_job = [&](const ops::PackedMatrix& matrix, std::size_t expert, float* to,
                             std::int64_t stride) {
        const std::int64_t first = first_visit_[expert];
        const std::int64_t count = first_visit_[expert + 1] - first;
        if (count > 0)
            jobs_.push_back({&matrix, {to + first * stride, stride, false}, first, count});
    };
    jobs_.clear();
    for (std::size_t e = 0; e < size_of(config.n_experts); ++e) {
        add_job(weights.gate[e], e, gate_.data(), ffn);
        add_job(weights.up[e], e, up_.data(), ffn);
    }
    matmul_rows_.set(inputs_.data(), visits, hidden);
    ops::matmul(device.kernels, device.pool, matmul_rows_, jobs_);
    device.pool.run(visits, [&](std::int64_t i, int) {
        float* gate = gate_.data() + i * ffn;
        device.kernels.swiglu(gate, up_.data() + i * ffn, ffn, gate);
    });
    jobs_.clear();
    for (std::size_t e = 0; e < size_of(config.n_experts); ++e)
        add_job(weights.down[e], e, outputs_.data(), hidden);
    matmul_rows_.set(gate_.data(), visits, ffn);
    ops::matmul(device.kernels, device.pool, matmul_rows_, jobs_);
}

}  // namespace helix::engine
