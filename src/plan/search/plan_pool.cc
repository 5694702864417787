#include "plan/search/plan_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

constexpr double kSameScore = 1e-6;  // relative difference

// Who waits longer for the first token must get more for it: 3 % for a target twice as long.
constexpr double kWaitingExponent = 0.043;
double worth_of_waiting(const spec::ServingPolicy& policy) {
    return std::pow(spec::ServingPolicy().prefill_target_s / policy.prefill_target_s,
                    kWaitingExponent);
}

// Machines that keep to roles must get more for it: they cannot help each other in swings.
constexpr double kWorthRoles = 1.03;
double worth_of_roles(const spec::Placement& placement) {
    return placement.roles.empty() ? 1 : 1 / kWorthRoles;
}

Look one_shorter(Look look) {
    return look == Look::last ? Look::full : Look::glance;
}

}  // namespace

bool PlanPool::add(KnownPlan plan) {
    for (const KnownPlan& other : plans_) {
        const double score = other.candidate.score;
        const bool same = std::abs(score - plan.candidate.score) <= kSameScore * score;
        const bool alike = other.candidate.placement.roles == plan.candidate.placement.roles &&
                           other.candidate.policy == plan.candidate.policy;
        if (same && alike) return false;
    }
    plans_.push_back(std::move(plan));
    sorted_ = false;
    return true;
}

std::size_t PlanPool::judge_new(std::vector<KnownPlan> plans, Look look) {
    std::vector<std::size_t> added;
    for (KnownPlan& plan : plans) {
        if (add(std::move(plan))) added.push_back(plans_.size() - 1);
    }
    judge(added, look);
    if (look != Look::glance) count_judged(added, look);
    return added.size();
}

void PlanPool::count_judged(const std::vector<std::size_t>& which, Look look) {
    for (const std::size_t i : which) judged_ += plans_[i].look() == look ? 1 : 0;
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

void PlanPool::look_longer(Look look, std::size_t most, double least_before) {
    const Look before = one_shorter(look);
    const std::size_t end = count(before);
    const auto merit = [before](const KnownPlan& plan) {
        return before == Look::glance ? plan.glance : plan.full;
    };
    const double least = plans_.empty() ? 0 : least_before * merit(plans_.front());
    std::vector<std::size_t> chosen;
    for (std::size_t i = count(look); i < end && chosen.size() < most; ++i) {
        const bool runs = plans_[i].candidate.judgement.merit > 0;
        if (runs && merit(plans_[i]) >= least) chosen.push_back(i);
    }
    if (look == Look::last) {
        const spec::ServingPolicy policy =
            plans_.empty() ? spec::ServingPolicy() : plans_.front().candidate.policy;
        for (const std::size_t i : chosen) plans_[i].candidate.policy = policy;
    }
    judge(chosen, look);
}

void PlanPool::judge(const std::vector<std::size_t>& which, Look look) {
    std::vector<double> took(which.size(), -1);  // as shares of the time; below 0: not judged
    const auto now = [&] { return options_.time_used ? options_.time_used() : 0.0; };
    run_jobs(options_.executor, static_cast<int>(which.size()), [&](int k) {
        if (options_.stop && options_.stop()) return;
        const double began = now();
        if (judge_one(plans_[which[base::at(k)]], look)) took[base::at(k)] = now() - began;
    });
    for (const double share : took) {
        if (look != Look::full || share < 0) continue;
        full_looks_time_ += share;
        ++full_looks_;
    }
    if (look == Look::glance) count_judged(which, look);
    sorted_ = false;
}

// False where the judge is out of time.
bool PlanPool::judge_one(KnownPlan& plan, Look look) const {
    ThroughputCandidate& candidate = plan.candidate;
    const Judgement judgement =
        options_.judge(candidate.placement, candidate.flows, candidate.policy, look);
    if (judgement.look != look) return false;
    candidate.judgement = judgement;
    candidate.judgement.merit *=
        worth_of_waiting(candidate.policy) * worth_of_roles(candidate.placement);
    if (look == Look::glance) plan.glance = judgement.merit;
    if (look == Look::full) {
        plan.full = judgement.merit;
        plan.trust = judgement.merit / candidate.score;
    }
    return true;
}

double PlanPool::full_look_share() const {
    return full_looks_ > 0 ? full_looks_time_ / full_looks_ : 0;
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
