#include "plan/search/throughput_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "plan/flow/evaluator.h"
#include "plan/flow/split.h"
#include "plan/flow/traffic.h"
#include "plan/search/assessor.h"
#include "plan/search/look_time.h"
#include "plan/search/moves.h"
#include "plan/search/plan_pool.h"
#include "plan/search/policy_search.h"

namespace helix::plan {
namespace {

using Layers = Assessor::Layers;

constexpr int kThroughputLanes = 4;
constexpr std::int64_t kFirstCycle = 4'000;  // tries of a lane in a round
constexpr std::int64_t kLongestCycle = 24'000;
constexpr int kHotRounds = 2;
// With a judge: of what a round has found, and of changes of the best, so many are judged.
constexpr std::size_t kFoundPerRound = 2;
constexpr std::size_t kChangesPerRound = 8;
constexpr std::size_t kLookedPerRound = 4;
constexpr std::size_t kLeastLooked = 4;     // of the starts, and at most a quarter of them
constexpr double kStartWorthALook = 0.93;   // its glance beside the best one, of further starts
constexpr double kWorthALook = 0.97;        // the same of what is found
constexpr std::size_t kFirstLastLooks = 2;  // at once, and then as many as are close
constexpr std::size_t kLastLooks = 4;
constexpr double kWorthALastLook = 0.98;  // a full look beside the best one
constexpr double kLastLooksShare = 0.2;   // of the time, where nobody knows what looks take
constexpr double kPolicyShare = 0.3;      // for policies, where they are chosen
constexpr std::size_t kChangedBest = 4;
constexpr int kChangeTries = 4;
constexpr std::int64_t kMostMoves = 2;
constexpr double kOtherSplit = 0.2;
constexpr std::uint64_t kChangeSeeds = 1'000'000;
constexpr std::int64_t kThroughputStopEvery = 32;
// Temperatures, in relative score.
constexpr double kHot = 0.03;
constexpr double kWarm = 0.008;  // around a known good one
constexpr double kThroughputCold = 0.0003;
constexpr std::size_t kKeptPerCycle = 4;
constexpr std::size_t kPool = 400;
constexpr std::int32_t kApart = 2;  // nodes that differ between distinct candidates of a cycle

using base::at;

std::int32_t different_nodes(const Layers& a, const Layers& b) {
    std::int32_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += a[i] == b[i] ? 0 : 1;
    return n;
}

class LaneSearch {
  public:
    LaneSearch(const Problem& problem, const std::vector<ThroughputStart>& starts,
               const ThroughputOptions& options)
        : problem_(problem),
          starts_(starts),
          options_(options),
          splitter_(problem, options.flow, options.models.front()->options().lengths.prompt),
          builder_(problem.cluster),
          pool_(options) {
        for (int lane = 0; lane < kThroughputLanes; ++lane)
            assessors_.emplace_back(problem, splitter_, options);
        policy_ = chooses_policy() ? options_.begin_with.value_or(first_policy()) : options_.policy;
    }

    ThroughputResult run() {
        for (std::size_t k = 0; k < starts_.size(); ++k) add_start(k);
        if (options_.judge) judge_starts();
        run_rounds(last_looks_share() + (chooses_policy() ? kPolicyShare : 0));
        if (options_.judge) look_at_the_best();
        if (chooses_policy()) {
            search_policies(pool_, problem_, options_);
            // In what is left of the time there may be a better one yet for that policy.
            run_rounds(last_looks_share());
            look_at_the_best();
            search_policies(pool_, problem_, options_);
        }
        result_.judged = pool_.judged();
        for (KnownPlan& plan : pool_.take_plans()) {
            if (result_.shortlist.size() == options_.shortlist) break;
            result_.shortlist.push_back(std::move(plan.candidate));
        }
        return std::move(result_);
    }

  private:
    bool chooses_policy() const { return options_.judge && options_.choose_policy; }
    // A layout that is not judged yet.
    void add(KnownPlan plan) {
        plan.candidate.policy = policy_;
        pool_.add(std::move(plan));
    }

    bool out_of_time() const { return options_.stop && options_.stop(); }
    // Is no more left than this share of the time, for the last looks and what follows them?
    bool is_late(double left) const {
        return out_of_time() ||
               (options_.judge && options_.time_used && options_.time_used() > 1 - left);
    }

    // Until no more than this share of the time is left.
    void run_rounds(double left) {
        for (bool first = round_ == 0; !pool_.empty() || first; first = false) {
            cycle_ =
                std::min(cycle_, (options_.iterations - result_.iterations) / kThroughputLanes);
            if (cycle_ <= 0 || is_late(left)) return;
            anneal_round(round_, cycle_);
            if (options_.judge) {
                judge_round(round_);
            } else {
                cycle_ = std::min(2 * cycle_, kLongestCycle);
            }
            ++round_;
        }
    }

    void add_start(std::size_t k) {
        const ThroughputStart& start = starts_[k];
        const auto add_splits = [&](Assessor& assessor) {
            for (const SplitBy split : {SplitBy::prediction, SplitBy::most_flow}) {
                if (split == SplitBy::most_flow && !options_.judge) continue;
                auto candidate = assessor.finish(start.placement.layers, split, builder_);
                if (!candidate) continue;
                candidate->start = static_cast<std::int32_t>(k);
                add({.candidate = std::move(*candidate)});
            }
        };
        if (start.only_links.empty()) return add_splits(assessors_[0]);
        ThroughputOptions apart = options_;
        apart.flow.only_links = start.only_links;
        const Splitter splitter(problem_, apart.flow,
                                apart.models.front()->options().lengths.prompt);
        Assessor assessor(problem_, splitter, apart);
        add_splits(assessor);
    }

    void judge_starts() {
        pool_.glance(pool_.plans().size());
        const std::size_t quarter = pool_.count(Look::glance) / 4;
        pool_.look_longer(Look::full, kLeastLooked);
        if (quarter > kLeastLooked) {
            pool_.look_longer(Look::full, quarter - kLeastLooked, kStartWorthALook);
        }
    }

    // The last looks, of which those after the first must promise to win.
    void look_at_the_best() {
        pool_.look_longer(Look::last, kFirstLastLooks);
        pool_.look_longer(Look::last, kLastLooks - kFirstLastLooks, kWorthALastLook);
    }

    // What they take of the time, if all of them come.
    double last_looks_share() const {
        const double full_look = pool_.full_look_share();
        if (full_look <= 0) return kLastLooksShare;
        return time_of_last_looks(full_look, kLastLooks, options_.side_by_side);
    }

    // Judges the most promising of what was found, and changes of what is best.
    void judge_round(int round) {
        pool_.glance(kFoundPerRound);
        change_best(round);
        pool_.glance(kChangesPerRound);
        pool_.look_longer(Look::full, kLookedPerRound, kWorthALook);
    }

    struct Change {
        std::size_t from = 0;  // by rank
        std::uint64_t seed = 0;
        double trust = 1;
        std::optional<ThroughputCandidate> candidate;
    };

    // The ranks of the best plans that had a full look, each layout once, whatever its policies.
    std::vector<std::size_t> best_layouts() {
        const std::size_t looked = pool_.count(Look::full);
        const std::vector<KnownPlan>& known = pool_.plans();
        std::vector<std::size_t> best;
        for (std::size_t i = 0; i < looked && best.size() < kChangedBest; ++i) {
            const bool again = std::any_of(best.begin(), best.end(), [&](std::size_t other) {
                return known[other].candidate.score == known[i].candidate.score;
            });
            if (!again) best.push_back(i);
        }
        return best;
    }

    // A few moves away from one of the best plans; of several such the one that promises most.
    void change_best(int round) {
        const std::vector<std::size_t> best = best_layouts();
        if (best.empty()) return;
        base::Random random(
            base::hash_pair(options_.seed, kChangeSeeds + static_cast<std::uint64_t>(round)));
        std::vector<Change> changes(kChangesPerRound);
        for (Change& change : changes) {
            change.from = best[random.below(1 + random.below(best.size()))];
            change.seed = random.next();
        }
        // Changes k, k + lanes, ... are made by one assessor.
        const std::vector<KnownPlan>& known = pool_.plans();
        run_jobs(options_.executor, kThroughputLanes, [&](int lane) {
            for (std::size_t k = at(lane); k < changes.size(); k += at(kThroughputLanes)) {
                Change& change = changes[k];
                change.candidate =
                    changed(known[change.from].candidate, change.seed, assessors_[at(lane)]);
                change.trust = known[change.from].trust;
            }
        });
        for (Change& change : changes) {
            if (!change.candidate) continue;
            add({.candidate = std::move(*change.candidate),
                 .trust = change.trust,
                 .changed = true});
        }
    }

    std::optional<ThroughputCandidate> changed(const ThroughputCandidate& plan, std::uint64_t seed,
                                               Assessor& assessor) const {
        base::Random random(seed);
        Mover mover(problem_.capacities, problem_.model.n_layers, random);
        const Layers& from = plan.placement.layers;
        std::int32_t weakest = assessor(from).scarce_layer;
        double best = 0;
        Layers chosen;
        for (int k = 0; k < kChangeTries; ++k) {
            Layers moved = from;
            const auto moves = random.between(1, kMostMoves);
            for (int m = 0; m < moves; ++m) mover.move(moved, weakest);
            if (moved == from) continue;
            const Scored scored = assessor(moved);
            if (!scored.within || scored.score <= best) continue;
            best = scored.score;
            chosen = std::move(moved);
        }
        if (best <= 0) return std::nullopt;
        SplitBy split = plan.split;
        if (random.chance(kOtherSplit)) {
            split = split == SplitBy::most_flow ? SplitBy::prediction : SplitBy::most_flow;
        }
        return assessor.finish(chosen, split, builder_);
    }

    struct Cycle {
        Layers start;
        double trust = 1;
        double hot = kHot;
        std::uint64_t seed = 0;
        std::int64_t length = 0;
        std::int64_t done = 0;
        std::vector<KnownPlan> found;
    };

    // Where the lanes of a round begin: the best judged, the most promising, a start, any good one.
    std::vector<Cycle> plan_round(int round, std::int64_t length) {
        base::Random random(base::hash_pair(options_.seed, static_cast<std::uint64_t>(round)));
        const std::vector<KnownPlan>& known = pool_.plans();
        std::vector<Cycle> cycles;
        for (int lane = 0; lane < kThroughputLanes; ++lane) {
            Cycle cycle;
            cycle.length = length;
            cycle.seed = random.next();
            const KnownPlan* from = nullptr;
            if (!known.empty() && !(lane == 3 && random.chance(0.5))) {
                const std::size_t best =
                    lane == 0 ? 0 : random.below(std::min(known.size(), at(4 * lane)));
                from = &known[best];
            }
            if (from != nullptr) {
                cycle.start = from->candidate.placement.layers;
                cycle.trust = from->trust;
                cycle.hot = lane < 2 && round >= kHotRounds ? kWarm : kHot;
            } else {
                cycle.start = starts_[random.below(starts_.size())].placement.layers;
                cycle.trust = pool_.mean_trust();
            }
            cycles.push_back(std::move(cycle));
        }
        return cycles;
    }

    void anneal_round(int round, std::int64_t length) {
        std::vector<Cycle> cycles = plan_round(round, length);
        run_jobs(options_.executor, kThroughputLanes,
                 [&](int lane) { anneal(cycles[at(lane)], assessors_[at(lane)]); });
        for (Cycle& cycle : cycles) {
            result_.iterations += cycle.done;
            for (KnownPlan& plan : cycle.found) add(std::move(plan));
        }
        pool_.shorten(kPool);
    }

    void anneal(Cycle& cycle, Assessor& assessor) {
        base::Random random(cycle.seed);
        Mover mover(problem_.capacities, problem_.model.n_layers, random);
        Layers current = cycle.start;
        Scored now = assessor(current);
        std::vector<std::pair<double, Layers>> best;  // falling score, apart from each other
        keep(now, current, best);
        while (cycle.done < cycle.length) {
            if (cycle.done % kThroughputStopEvery == 0 && out_of_time()) break;
            const double progress =
                static_cast<double>(cycle.done) / static_cast<double>(cycle.length);
            const double temperature = cycle.hot * std::pow(kThroughputCold / cycle.hot, progress);
            ++cycle.done;
            Layers moved = current;
            mover.move(moved, now.scarce_layer);
            if (moved == current) continue;
            const Scored next = assessor(moved);
            if (next.score <= 0) continue;
            const double gain = now.score > 0 ? std::log(next.score / now.score) : 1;
            if (gain < 0 && random.uniform() >= std::exp(gain / temperature)) continue;
            current = std::move(moved);
            now = next;
            keep(now, current, best);
        }
        for (const auto& [score, layers] : best) {
            if (auto candidate = assessor.finish(layers, SplitBy::prediction, builder_))
                cycle.found.push_back({.candidate = std::move(*candidate), .trust = cycle.trust});
        }
    }

    static void keep(const Scored& scored, const Layers& layers,
                     std::vector<std::pair<double, Layers>>& best) {
        if (!scored.within || scored.score <= 0) return;
        if (best.size() == kKeptPerCycle && scored.score <= best.back().first) return;
        // One that is better and much the same makes this one needless; the others that are much
        // the same go.
        for (const auto& [score, other] : best) {
            if (score >= scored.score && different_nodes(other, layers) < kApart) return;
        }
        std::erase_if(best, [&](const auto& other) {
            return other.first < scored.score && different_nodes(other.second, layers) < kApart;
        });
        const auto place = std::find_if(best.begin(), best.end(), [&](const auto& other) {
            return other.first < scored.score;
        });
        best.insert(place, {scored.score, layers});
        if (best.size() > kKeptPerCycle) best.pop_back();
    }

    Problem problem_;
    const std::vector<ThroughputStart>& starts_;
    const ThroughputOptions& options_;
    Splitter splitter_;
    TrafficBuilder builder_;
    std::vector<Assessor> assessors_;
    PlanPool pool_;
    ThroughputResult result_;
    spec::ServingPolicy policy_;  // that layouts are judged under at first
    int round_ = 0;
    std::int64_t cycle_ = kFirstCycle;  // tries of a lane in the next round
};

}  // namespace

ThroughputResult search_throughput(const Problem& problem,
                                   const std::vector<ThroughputStart>& starts,
                                   const ThroughputOptions& options) {
    CHECK(!options.models.empty());
    CHECK(!starts.empty());
    return LaneSearch(problem, starts, options).run();
}

std::optional<ThroughputCandidate> split_placement(const Problem& problem,
                                                   const spec::Placement& placement,
                                                   const ThroughputOptions& options) {
    CHECK(!options.models.empty());
    const Splitter splitter(problem, options.flow,
                            options.models.front()->options().lengths.prompt);
    return Assessor(problem, splitter, options)
        .finish(placement.layers, SplitBy::prediction, TrafficBuilder(problem.cluster));
}

std::vector<ParetoEntry> pareto_table(const Problem& problem, const FlowOptions& flow,
                                      const std::vector<ThroughputCandidate>& shortlist) {
    const Evaluator evaluator(problem, flow);
    std::vector<ParetoEntry> entries;
    std::vector<Merits> merits;
    for (std::size_t c = 0; c < shortlist.size(); ++c) {
        const ThroughputCandidate& candidate = shortlist[c];
        ParetoEntry entry{.merits = {},
                          .robustness = single_losses(problem, candidate.placement, flow),
                          .candidate = c};
        CHECK(!candidate.estimates.empty());
        entry.merits = {.flow_tokens_per_s = entry.robustness.tokens_per_s,
                        .decode_tokens_per_s = candidate.estimates.front().decode_tokens_per_s,
                        .depth = candidate.estimates.front().depth,
                        .kv_tokens = evaluator.least_kv_tokens(candidate.placement.layers),
                        .worst_loss_share = entry.robustness.worst_share()};
        merits.push_back(entry.merits);
        entries.push_back(std::move(entry));
    }
    std::vector<ParetoEntry> table;
    for (const std::size_t i : pareto_front(merits)) {
        if (i > 0 && table.empty()) table.push_back(std::move(entries[0]));
        table.push_back(std::move(entries[i]));
    }
    return table;
}

}  // namespace helix::plan
