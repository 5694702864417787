#include "plan/search/throughput_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "plan/flow/evaluator.h"
#include "plan/flow/split.h"
#include "plan/flow/traffic.h"
#include "plan/search/moves.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using spec::Placement;
using Layers = std::vector<LayerRange>;

constexpr int kThroughputLanes = 4;
constexpr std::int64_t kFirstCycle = 4'000;  // tries of a lane in a round
constexpr std::int64_t kLongestCycle = 24'000;
constexpr int kRoundsBeforeJudging = 2;
constexpr int kJudgedPerRound = 8;
constexpr std::int64_t kThroughputStopEvery = 32;
// Temperatures, in relative score.
constexpr double kHot = 0.03;
constexpr double kWarm = 0.008;  // around a known good one
constexpr double kThroughputCold = 0.0003;
constexpr std::size_t kKeptPerCycle = 4;
constexpr std::size_t kPool = 400;
constexpr std::int32_t kApart = 2;  // nodes that differ between distinct candidates of a cycle
constexpr double kSame = 1e-6;      // relative difference of scores
constexpr std::int32_t kSplitTries = 300;
constexpr double kBrokenLimit = 6.0;  // e-folds of score for missing a limit altogether

using base::at;

std::int32_t different_nodes(const Layers& a, const Layers& b) {
    std::int32_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += a[i] == b[i] ? 0 : 1;
    return n;
}

struct Scored {
    double score = 0;    // with limits held against it
    bool within = true;  // the limits
    std::int32_t scarce_layer = 0;
};

struct Known {
    ThroughputCandidate candidate;
    // Judged over predicted of the one it descends from: what a prediction near it is worth.
    double trust = 1;
    double promise() const { return candidate.score * trust; }
};

// Predictions of one thread.
class Assessor {
  public:
    Assessor(const Problem& problem, const Splitter& splitter, const ThroughputOptions& options)
        : problem_(problem), splitter_(splitter), options_(options) {}

    // The placement with the quick split.
    Scored operator()(const Layers& layers) {
        if (splitter_.split(layers, scratch_, flows_) <= 0) return {};
        return score(layers, flows_);
    }

    Scored score(const Layers& layers, std::span<const spec::LinkFlow> flows) {
        Scored result;
        double sum = 0;
        double over = 0;
        estimates_.clear();
        for (const PerformanceModel* model : options_.models) {
            const Estimate estimate = model->estimate(layers, flows, performance_);
            if (estimate.decode_tokens_per_s <= 0) return {.within = false};
            estimates_.push_back(estimate);
            result.scarce_layer = estimate.scarce_layer;
            sum += std::log(merit(estimate, model->options().lengths));
            if (options_.tpot_slo_s > 0)
                over += std::max(0.0, estimate.tpot_s / options_.tpot_slo_s - 1);
        }
        if (options_.max_depth > 0)
            over += std::max(0.0, estimates_.back().depth / options_.max_depth - 1);
        if (options_.survive > 0) over += std::max(0.0, options_.survive - survival(layers));
        result.within = over <= 1e-9;
        result.score = std::exp(sum / static_cast<double>(options_.models.size()) -
                                kBrokenLimit * std::min(over, 1.0));
        return result;
    }

    // A full candidate: the split improved, unused nodes left out. Nothing if it misses a limit.
    std::optional<ThroughputCandidate> finish(const Layers& layers, const TrafficBuilder& builder) {
        ThroughputCandidate candidate;
        candidate.placement.layers = layers;
        if (splitter_.split(layers, scratch_, candidate.flows) <= 0) return std::nullopt;
        improve_split(
            [&](std::span<const spec::LinkFlow> flows) { return score(layers, flows).score; },
            kSplitTries, candidate.flows);
        return settle(std::move(candidate), builder);
    }

  private:
    std::optional<ThroughputCandidate> settle(ThroughputCandidate candidate,
                                              const TrafficBuilder& builder) {
        Layers& layers = candidate.placement.layers;
        candidate.flow_tokens_per_s = scale_to_capacity(builder, problem_, layers, candidate.flows);
        if (candidate.flow_tokens_per_s <= 0) return std::nullopt;
        std::vector<bool> used(layers.size());
        for (const spec::LinkFlow& flow : candidate.flows) {
            if (flow.to != spec::kCoordinator) used[at(flow.to)] = true;
        }
        for (std::size_t i = 0; i < layers.size(); ++i) {
            if (!used[i]) layers[i] = {};
        }
        const Scored scored = score(layers, candidate.flows);
        if (!scored.within) return std::nullopt;
        if (options_.survive > 0) {
            const Robustness exact = single_losses(problem_, candidate.placement, options_.flow);
            if (exact.worst_share() < options_.survive * (1 - 1e-9)) return std::nullopt;
        }
        candidate.score = scored.score;
        candidate.estimates = estimates_;
        return candidate;
    }

    double merit(const Estimate& estimate, const LengthMoments& lengths) const {
        const double answer_s = estimate.alone_ttft_s + lengths.output * estimate.alone_tpot_s;
        switch (options_.objective) {
            case ThroughputObjective::throughput:
                return estimate.decode_tokens_per_s;
            case ThroughputObjective::latency:
                return 1 / answer_s;
            case ThroughputObjective::balanced:
                return std::sqrt(estimate.decode_tokens_per_s / answer_s);
        }
        return 0;
    }

    // The least share of the flow that the loss of one machine leaves, by the quick split.
    double survival(const Layers& layers) {
        const double all = splitter_.split(layers, scratch_, rest_flows_);
        if (all <= 0) return 0;
        double least = 1;
        rest_ = layers;
        for (std::size_t i = 0; i < layers.size() && least > 0; ++i) {
            if (layers[i].empty()) continue;
            const std::string& host = problem_.cluster.nodes[i].host;
            for (std::size_t k = 0; k < layers.size(); ++k) {
                if (k == i || (!host.empty() && problem_.cluster.nodes[k].host == host))
                    rest_[k] = {};
            }
            least = std::min(least, splitter_.split(rest_, scratch_, rest_flows_) / all);
            rest_ = layers;
        }
        return least;
    }

    Problem problem_;
    const Splitter& splitter_;
    const ThroughputOptions& options_;
    Splitter::Scratch scratch_;
    PerformanceScratch performance_;
    std::vector<spec::LinkFlow> flows_;
    std::vector<Estimate> estimates_;
    Layers rest_;
    std::vector<spec::LinkFlow> rest_flows_;
};

class LaneSearch {
  public:
    LaneSearch(const Problem& problem, const ThroughputOptions& options)
        : n_layers_(problem.model.n_layers),
          capacities_(problem.capacities),
          options_(options),
          splitter_(problem, options.flow, options.models.front()->options().lengths.prompt),
          builder_(problem.cluster) {
        for (int lane = 0; lane < kThroughputLanes; ++lane)
            judges_.emplace_back(problem, splitter_, options);
    }

    ThroughputResult run(const std::vector<Placement>& starts) {
        starts_ = starts;
        add_starts();
        judge_best(static_cast<int>(starts_.size()));
        std::int64_t length = kFirstCycle;
        for (int round = 0; !known_.empty() || round == 0; ++round) {
            length =
                std::min(length, (options_.iterations - result_.iterations) / kThroughputLanes);
            if (length <= 0 || out_of_time()) break;
            anneal_round(round, length);
            if (round >= kRoundsBeforeJudging) judge_best(kJudgedPerRound);
            length = std::min(2 * length, kLongestCycle);
        }
        sort_known();
        for (Known& known : known_) {
            if (result_.shortlist.size() == options_.shortlist) break;
            result_.shortlist.push_back(std::move(known.candidate));
        }
        return std::move(result_);
    }

  private:
    bool out_of_time() const { return options_.stop && options_.stop(); }

    void add_starts() {
        for (const Placement& start : starts_) {
            if (auto candidate = judges_[0].finish(start.layers, builder_))
                add({.candidate = std::move(*candidate)});
        }
    }

    // Placements that differ only in which of two equal machines does what are the same one; their
    // scores tell.
    void add(Known known) {
        for (const Known& other : known_) {
            if (std::abs(other.candidate.score - known.candidate.score) <=
                kSame * known.candidate.score)
                return;
        }
        known_.push_back(std::move(known));
    }

    // Judged ones first, by judgement; then by what they promise.
    void sort_known() {
        std::stable_sort(known_.begin(), known_.end(), [](const Known& a, const Known& b) {
            if ((a.candidate.judgement.merit > 0) != (b.candidate.judgement.merit > 0))
                return a.candidate.judgement.merit > 0;
            if (a.candidate.judgement.merit > 0)
                return a.candidate.judgement.merit > b.candidate.judgement.merit;
            return a.promise() > b.promise();
        });
    }

    struct Cycle {
        Layers start;
        double trust = 1;
        double hot = kHot;
        std::uint64_t seed = 0;
        std::int64_t length = 0;
        std::int64_t done = 0;
        std::vector<Known> found;
    };

    // Where the lanes of a round begin: the best judged, the most promising, a start, any good one.
    std::vector<Cycle> plan_round(int round, std::int64_t length) {
        sort_known();
        base::Random random(base::hash_pair(options_.seed, static_cast<std::uint64_t>(round)));
        std::vector<Cycle> cycles;
        for (int lane = 0; lane < kThroughputLanes; ++lane) {
            Cycle cycle;
            cycle.length = length;
            cycle.seed = random.next();
            const Known* from = nullptr;
            if (!known_.empty() && !(lane == 3 && random.chance(0.5))) {
                const std::size_t best =
                    lane == 0 ? 0 : random.below(std::min(known_.size(), at(4 * lane)));
                from = &known_[best];
            }
            if (from != nullptr) {
                cycle.start = from->candidate.placement.layers;
                cycle.trust = from->trust;
                cycle.hot = lane < 2 && round >= kRoundsBeforeJudging ? kWarm : kHot;
            } else {
                cycle.start = starts_[random.below(starts_.size())].layers;
                cycle.trust = mean_trust();
            }
            cycles.push_back(std::move(cycle));
        }
        return cycles;
    }

    double mean_trust() const {
        double sum = 0;
        double n = 0;
        for (const Known& known : known_) {
            if (known.candidate.judgement.merit <= 0) continue;
            sum += known.trust;
            n += 1;
        }
        return n > 0 ? sum / n : 1;
    }

    void anneal_round(int round, std::int64_t length) {
        std::vector<Cycle> cycles = plan_round(round, length);
        run_jobs(options_.executor, kThroughputLanes,
                 [&](int lane) { anneal(cycles[at(lane)], judges_[at(lane)]); });
        for (Cycle& cycle : cycles) {
            result_.iterations += cycle.done;
            for (Known& known : cycle.found) add(std::move(known));
        }
        sort_known();
        if (known_.size() > kPool) known_.resize(kPool);
    }

    void anneal(Cycle& cycle, Assessor& judge) {
        base::Random random(cycle.seed);
        Mover mover(capacities_, n_layers_, random);
        Layers current = cycle.start;
        Scored now = judge(current);
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
            const Scored next = judge(moved);
            if (next.score <= 0) continue;
            const double gain = now.score > 0 ? std::log(next.score / now.score) : 1;
            if (gain < 0 && random.uniform() >= std::exp(gain / temperature)) continue;
            current = std::move(moved);
            now = next;
            keep(now, current, best);
        }
        for (const auto& [score, layers] : best) {
            if (auto candidate = judge.finish(layers, builder_))
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

    void judge_best(int most) {
        if (!options_.judge) return;
        sort_known();
        std::vector<Known*> chosen;
        for (Known& known : known_) {
            if (known.candidate.judgement.merit > 0) continue;
            if (static_cast<int>(chosen.size()) == most ||
                result_.judged + static_cast<std::int32_t>(chosen.size()) >= options_.most_judged)
                break;
            chosen.push_back(&known);
        }
        run_jobs(options_.executor, static_cast<int>(chosen.size()), [&](int k) {
            if (out_of_time()) return;
            ThroughputCandidate& candidate = chosen[at(k)]->candidate;
            candidate.judgement = options_.judge(candidate.placement, candidate.flows);
            if (candidate.judgement.merit > 0)
                chosen[at(k)]->trust = candidate.judgement.merit / candidate.score;
        });
        for (const Known* known : chosen)
            result_.judged += known->candidate.judgement.merit > 0 ? 1 : 0;
        sort_known();
    }

    std::int32_t n_layers_;
    const CapacityTable& capacities_;
    const ThroughputOptions& options_;
    Splitter splitter_;
    TrafficBuilder builder_;
    std::vector<Assessor> judges_;
    std::vector<Placement> starts_;
    std::vector<Known> known_;
    ThroughputResult result_;
};

}  // namespace

ThroughputResult search_throughput(const Problem& problem, const std::vector<Placement>& starts,
                                   const ThroughputOptions& options) {
    CHECK(!options.models.empty());
    CHECK(!starts.empty());
    return LaneSearch(problem, options).run(starts);
}

std::optional<ThroughputCandidate> split_placement(const Problem& problem,
                                                   const spec::Placement& placement,
                                                   const ThroughputOptions& options) {
    CHECK(!options.models.empty());
    const Splitter splitter(problem, options.flow,
                            options.models.front()->options().lengths.prompt);
    return Assessor(problem, splitter, options)
        .finish(placement.layers, TrafficBuilder(problem.cluster));
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
