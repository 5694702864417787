#include "plan/search/plan_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

constexpr double kSameScore = 1e-6;  // relative difference

Look one_shorter(Look look) {
    return look == Look::last ? Look::full : Look::glance;
}

}  // namespace

bool PlanPool::add(KnownPlan plan) {
    for (const KnownPlan& other : plans_) {
        const double score = other.candidate.score;
        if (std::abs(score - plan.candidate.score) <= kSameScore * score) return false;
    }
    plans_.push_back(std::move(plan));
    sorted_ = false;
    return true;
}

const std::vector<KnownPlan>& PlanPool::plans() {
    sort();
    return plans_;
}

std::vector<KnownPlan> PlanPool::take_plans() {
    sort();
    return std::move(plans_);
}

void PlanPool::sort() {
    if (std::exchange(sorted_, true)) return;
    std::stable_sort(plans_.begin(), plans_.end(), [](const KnownPlan& a, const KnownPlan& b) {
        if (a.look() != b.look()) return a.look() > b.look();
        if (a.look() == Look::none) {
            return a.changed != b.changed ? a.changed : a.promise() > b.promise();
        }
        return a.candidate.judgement.merit > b.candidate.judgement.merit;
    });
}

void PlanPool::shorten(std::size_t most) {
    sort();
    if (plans_.size() > most) plans_.resize(most);
}

void PlanPool::glance(std::size_t most) {
    std::vector<std::size_t> chosen;
    for (std::size_t i = count(Look::glance); i < plans_.size() && chosen.size() < most; ++i) {
        chosen.push_back(i);
    }
    judge(chosen, Look::glance);
}

void PlanPool::look_longer(Look look, std::size_t most, double least_glance) {
    const Look before = one_shorter(look);
    const std::size_t end = count(before);
    double best_glance = 0;  // of all, also of those that had a longer look since
    for (const KnownPlan& plan : plans_) best_glance = std::max(best_glance, plan.glance);
    std::vector<std::size_t> chosen;
    for (std::size_t i = count(look); i < end && chosen.size() < most; ++i) {
        const bool runs = plans_[i].candidate.judgement.merit > 0;
        if (runs && plans_[i].glance >= least_glance * best_glance) chosen.push_back(i);
    }
    judge(chosen, look);
}

void PlanPool::judge(const std::vector<std::size_t>& which, Look look) {
    run_jobs(options_.executor, static_cast<int>(which.size()), [&](int k) {
        if (options_.stop && options_.stop()) return;
        KnownPlan& plan = plans_[which[base::at(k)]];
        ThroughputCandidate& candidate = plan.candidate;
        const Judgement judgement = options_.judge(candidate.placement, candidate.flows, look);
        if (judgement.look != look) return;  // out of time
        candidate.judgement = judgement;
        if (look == Look::glance) plan.glance = judgement.merit;
        if (look == Look::full) plan.trust = judgement.merit / candidate.score;
    });
    if (look == Look::glance) {
        for (const std::size_t i : which) judged_ += plans_[i].look() == Look::glance ? 1 : 0;
    }
    sorted_ = false;
}

std::size_t PlanPool::count(Look look) {
    sort();
    const auto shorter = std::find_if(plans_.begin(), plans_.end(),
                                      [&](const KnownPlan& plan) { return plan.look() < look; });
    return static_cast<std::size_t>(shorter - plans_.begin());
}

double PlanPool::mean_trust() const {
    double sum = 0;
    double n = 0;
    for (const KnownPlan& plan : plans_) {
        if (plan.look() < Look::full) continue;
        sum += plan.trust;
        n += 1;
    }
    return n > 0 ? sum / n : 1;
}

}  // namespace helix::plan
