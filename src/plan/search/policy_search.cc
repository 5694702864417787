#include "plan/search/policy_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "plan/search/role_search.h"

namespace helix::plan {
namespace {

// The usual values are among them.
constexpr std::array kPrefillShares = {0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5};
constexpr std::array kHighWaters = {0.85, 0.9, 0.95, 1.0};
constexpr std::array kPrefillTargets = {2.0, 3.0, 4.0};
constexpr std::array kGroupsPerMachine = {0.5, 1.0, 1.5, 2.0, 3.0};

// The values beside this one.
std::vector<double> beside(std::span<const double> grid, double value) {
    const auto at = std::min_element(grid.begin(), grid.end(), [&](double a, double b) {
        return std::abs(a - value) < std::abs(b - value);
    });
    std::vector<double> found;
    if (at != grid.begin()) found.push_back(*std::prev(at));
    if (std::next(at) != grid.end()) found.push_back(*std::next(at));
    return found;
}

KnownPlan served_by(const KnownPlan& plan, const spec::ServingPolicy& policy) {
    KnownPlan other = plan;
    other.candidate.policy = policy;
    other.candidate.judgement = {};
    return other;
}

struct Knob {
    double spec::ServingPolicy::*member;
    std::span<const double> grid;
};
constexpr std::array kKnobs = {Knob{&spec::ServingPolicy::prefill_share, kPrefillShares},
                               Knob{&spec::ServingPolicy::kv_high_water, kHighWaters},
                               Knob{&spec::ServingPolicy::prefill_target_s, kPrefillTargets},
                               Knob{&spec::ServingPolicy::groups_per_machine, kGroupsPerMachine}};

std::vector<KnownPlan> neighbours(const KnownPlan& plan, const Knob& knob) {
    std::vector<KnownPlan> found;
    for (const double value : beside(knob.grid, plan.candidate.policy.*knob.member)) {
        spec::ServingPolicy policy = plan.candidate.policy;
        policy.*knob.member = value;
        found.push_back(served_by(plan, policy));
    }
    return found;
}

bool has_roles(const KnownPlan& plan) {
    return !plan.candidate.placement.roles.empty();
}

// The others that had a last look, under the first one's policy; those with roles were behind it
// under nearly the same.
std::vector<KnownPlan> under_the_best_policy(PlanPool& pool) {
    const std::size_t looked = pool.count(Look::last);
    const std::vector<KnownPlan>& plans = pool.plans();
    std::vector<KnownPlan> found;
    for (std::size_t i = 1; i < looked; ++i) {
        if (has_roles(plans[i])) continue;
        found.push_back(served_by(plans[i], plans[0].candidate.policy));
    }
    return found;
}

// The layouts that had a last look, each once, with roles.
std::vector<KnownPlan> with_roles(PlanPool& pool, const Problem& problem,
                                  const ThroughputOptions& options) {
    std::vector<KnownPlan> found;
    if (options.costs == nullptr) return found;
    const std::size_t looked = pool.count(Look::last);
    const std::vector<KnownPlan>& plans = pool.plans();
    const LengthMoments& lengths = options.models.front()->options().lengths;
    for (std::size_t i = 0; i < looked; ++i) {
        const bool tried = std::any_of(plans.begin(), plans.end(), [&](const KnownPlan& other) {
            return has_roles(other) && other.candidate.score == plans[i].candidate.score;
        });
        if (tried) continue;
        const KnownPlan plan = served_by(plans[i], plans[0].candidate.policy);
        for (auto& roles : role_choices(problem, *options.costs, lengths, plan.candidate)) {
            found.push_back(plan);
            found.back().candidate.placement.roles = std::move(roles);
        }
    }
    return found;
}

}  // namespace

spec::ServingPolicy first_policy() {
    spec::ServingPolicy policy;
    policy.prefill_share = 2;
    return policy;
}

void search_policies(PlanPool& pool, const Problem& problem, const ThroughputOptions& options) {
    std::size_t knob = 0;
    std::size_t in_vain = 0;  // knobs one after the other that the best plan gained nothing by
    while (pool.count(Look::last) > 0) {
        if (options.stop && options.stop()) return;
        const KnownPlan best = pool.plans().front();
        if (in_vain == kKnobs.size()) {
            std::vector<KnownPlan> others = under_the_best_policy(pool);
            for (KnownPlan& plan : with_roles(pool, problem, options))
                others.push_back(std::move(plan));
            if (pool.judge_new(std::move(others), Look::last) == 0) return;
        } else {
            pool.judge_new(neighbours(best, kKnobs[knob]), Look::last);
        }
        const ThroughputCandidate& now = pool.plans().front().candidate;
        if (now.score != best.candidate.score || now.policy != best.candidate.policy ||
            now.placement.roles != best.candidate.placement.roles) {
            in_vain = 0;
            continue;
        }
        if (in_vain == kKnobs.size()) return;
        ++in_vain;
        knob = (knob + 1) % kKnobs.size();
    }
}

}  // namespace helix::plan
