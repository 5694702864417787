#include "engine/ops/experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"
#include "model/limits.h"

namespace helix::engine {
namespace {

using base::size_of;

// The highest of the scores that were offered; of equal ones the first, and no numbers last.
struct Best {
    std::int32_t number = -1;
    float score = 0;

    void offer(std::size_t other, float its_score) {
        const bool first_number = number >= 0 && std::isnan(score) && !std::isnan(its_score);
        if (number >= 0 && !first_number && !(its_score > score)) return;
        number = static_cast<std::int32_t>(other);
        score = its_score;
    }
};

// What the experts of a row are chosen by, in groups of equal size.
struct Candidates {
    std::span<const float> scores;
    std::span<const float> bias;  // added to each, or empty
    std::size_t group_size;

    float score_of(std::size_t e) const { return bias.empty() ? scores[e] : scores[e] + bias[e]; }
    // The best of a group but for those that are taken.
    void offer_group(std::size_t group, std::span<const std::int32_t> taken, Best& best) const {
        for (std::size_t e = group * group_size; e < (group + 1) * group_size; ++e) {
            const auto expert = static_cast<std::int32_t>(e);
            if (std::find(taken.begin(), taken.end(), expert) == taken.end())
                best.offer(e, score_of(e));
        }
    }
};

// A bit for each group that is kept.
std::uint32_t kept_groups(const Candidates& candidates, std::size_t n_groups, int n_used) {
    std::array<float, model::limits::kMaxExpertGroups> sums{};
    for (std::size_t g = 0; g < n_groups; ++g) {
        Best first, second;
        candidates.offer_group(g, {}, first);
        candidates.offer_group(g, {&first.number, 1}, second);
        sums[g] = first.score + second.score;
    }
    std::uint32_t kept = 0;
    for (int n = 0; n < n_used; ++n) {
        Best best;
        for (std::size_t g = 0; g < n_groups; ++g) {
            if (((kept >> g) & 1U) == 0) best.offer(g, sums[g]);
        }
        kept |= 1U << static_cast<std::uint32_t>(best.number);
    }
    return kept;
}

// The numbers of the highest scores, ascending.
void choose(const ops::RouteRows& op, std::span<const float> scores, std::span<const float> bias,
            std::span<std::int32_t> chosen) {
    const auto n_groups = size_of(op.n_groups);
    const Candidates candidates{scores, bias, scores.size() / n_groups};
    const std::uint32_t kept =
        n_groups > 1 ? kept_groups(candidates, n_groups, op.n_groups_used) : 1U;
    for (std::size_t n = 0; n < chosen.size(); ++n) {
        Best best;
        for (std::size_t g = 0; g < n_groups; ++g) {
            if (((kept >> g) & 1U) != 0) candidates.offer_group(g, chosen.first(n), best);
        }
        chosen[n] = best.number;
    }
    std::sort(chosen.begin(), chosen.end());
}

// A row's experts and their weights. scores is work space afterwards.
void route_by_softmax(const ops::Kernels& kernels, const ops::RouteRows& op,
                      std::span<float> scores, std::span<std::int32_t> chosen,
                      std::span<float> weights) {
    choose(op, scores, {}, chosen);
    float top = -std::numeric_limits<float>::infinity();
    for (const std::int32_t expert : chosen) top = std::max(top, scores[size_of(expert)]);
    kernels.exp_row(scores.data(), std::ssize(scores), top, 1.0F, scores.data());
    float sum = 0;
    if (op.normalise) {
        for (const std::int32_t expert : chosen) sum += scores[size_of(expert)];
    } else {
        for (const float weight : scores) sum += weight;
    }
    for (std::size_t i = 0; i < chosen.size(); ++i)
        weights[i] = scores[size_of(chosen[i])] / sum * op.factor;
}

void route_by_sigmoid(const ops::Kernels& kernels, const ops::RouteRows& op,
                      std::span<const float> bias, std::span<float> scores,
                      std::span<std::int32_t> chosen, std::span<float> weights) {
    if (bias.empty()) choose(op, scores, bias, chosen);
    kernels.sigmoid_row(scores.data(), std::ssize(scores), scores.data());
    if (!bias.empty()) choose(op, scores, bias, chosen);
    // So that a row whose chosen weights are all zero has zeros.
    float sum = 1e-20F;
    for (const std::int32_t expert : chosen) sum += scores[size_of(expert)];
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const float weight = scores[size_of(chosen[i])];
        weights[i] = (op.normalise ? weight / sum : weight) * op.factor;
    }
}

// Sorts the visits by expert.
void collect_visits(std::int64_t n_experts, CpuRouting& r) {
    r.first_visit.assign(size_of(n_experts) + 1, 0);
    for (const std::int32_t expert : r.chosen) ++r.first_visit[size_of(expert) + 1];
    for (std::size_t e = 1; e < r.first_visit.size(); ++e) r.first_visit[e] += r.first_visit[e - 1];
    r.visits.resize(r.chosen.size());
    r.visit_of.resize(r.chosen.size());
    std::vector<std::int64_t> next(r.first_visit.begin(), r.first_visit.end() - 1);
    for (std::int64_t row = 0; row < r.rows; ++row) {
        for (std::int64_t n = 0; n < r.n_used; ++n) {
            const std::size_t at = size_of(row * r.n_used + n);
            const std::int64_t visit = next[size_of(r.chosen[at])]++;
            r.visits[size_of(visit)] = {row, r.chosen_weights[at]};
            r.visit_of[at] = visit;
        }
    }
}

}  // namespace

void CpuDevice::route_rows(const ops::RouteRows& op) {
    CHECK(op.n_groups == 1 || op.bias != nullptr);
    auto& r = static_cast<CpuRouting&>(op.routing);
    const auto n = size_of(op.n_experts);
    const auto used = size_of(op.n_used);
    r.rows = op.rows;
    r.n_used = op.n_used;
    r.chosen.resize(size_of(op.rows) * used);
    r.chosen_weights.resize(size_of(op.rows) * used);
    const std::span<float> scores(data_of(op.scores), size_of(op.rows) * n);
    std::span<const float> bias;
    if (op.bias != nullptr) bias = {data_of(*op.bias), n};
    pool_.run(op.rows, [&](std::int64_t row, int) {
        const std::size_t at = size_of(row) * used;
        const auto of_row = scores.subspan(size_of(row) * n, n);
        const auto chosen = std::span(r.chosen).subspan(at, used);
        const auto weights = std::span(r.chosen_weights).subspan(at, used);
        if (op.sigmoid) {
            route_by_sigmoid(kernels_, op, bias, of_row, chosen, weights);
        } else {
            route_by_softmax(kernels_, op, of_row, chosen, weights);
        }
        if (op.expert_factors == nullptr) return;
        const float* factors = data_of(*op.expert_factors);
        for (std::size_t i = 0; i < used; ++i) weights[i] *= factors[chosen[i]];
    });
    collect_visits(op.n_experts, r);
}

void CpuDevice::gather_visits(const ops::GatherVisits& op) {
    const auto& r = static_cast<const CpuRouting&>(op.routing);
    const float* from = data_of(op.x);
    float* to = data_of(op.y);
    pool_.run(std::ssize(r.visits), [&](std::int64_t i, int) {
        const float* row = from + r.visits[size_of(i)].row * op.width;
        float* visit = to + i * op.width;
        if (!op.weighted) {
            std::copy_n(row, op.width, visit);
            return;
        }
        const float weight = r.visits[size_of(i)].weight;
        for (std::int64_t c = 0; c < op.width; ++c) visit[c] = weight * row[c];
    });
}

void CpuDevice::expert_matmul(const ops::ExpertMatmul& op) {
    const auto& r = static_cast<const CpuRouting&>(op.routing);
    jobs_.clear();
    for (std::size_t e = 0; e + 1 < r.first_visit.size(); ++e) {
        const std::int64_t first = r.first_visit[e];
        const std::int64_t count = r.first_visit[e + 1] - first;
        if (count == 0) continue;
        for (const ops::Projection& to : op.to) {
            const auto& matrix = static_cast<const CpuMatrix&>(to.matrix);
            const std::int64_t width = matrix.shape().rows;
            const auto expert = static_cast<std::int64_t>(e);
            jobs_.push_back({&matrix.packed(expert),
                             {data_of(to.y) + first * width, width, to.accumulate,
                              matrix.shape().factor(expert)},
                             first,
                             count});
            if (watcher_ == nullptr) continue;
            const std::int64_t cols = matrix.shape().cols;
            watcher_->rows(matrix, expert, {data_of(op.x) + first * cols, size_of(count * cols)});
        }
    }
    matmul_rows_.set(data_of(op.x), std::ssize(r.visits), op.to[0].matrix.shape().cols);
    ops::matmul(kernels_, pool_, matmul_rows_, jobs_);
}

// In ascending order of a row's experts, whoever else visited them.
void CpuDevice::add_visits(const ops::AddVisits& op) {
    const auto& r = static_cast<const CpuRouting&>(op.routing);
    const float* x = data_of(op.x);
    float* y = data_of(op.y);
    pool_.run(r.rows, [&](std::int64_t row, int) {
        float* to = y + row * op.width;
        if (op.replace) std::fill_n(to, op.width, 0.0F);
        for (std::int64_t n = 0; n < r.n_used; ++n) {
            const std::int64_t visit = r.visit_of[size_of(row * r.n_used + n)];
            const float weight = op.weighted ? r.visits[size_of(visit)].weight : 1.0F;
            const float* from = x + visit * op.width;
            for (std::int64_t i = 0; i < op.width; ++i) to[i] += weight * from[i];
        }
    });
}

}  // namespace helix::engine
