#include "plan/search/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "plan/flow/target_flow.h"
#include "plan/search/anneal.h"
#include "plan/search/enumerate.h"
#include "plan/search/moves.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using spec::Placement;
using Layers = std::vector<LayerRange>;

constexpr int kFlowLanes = 2;
constexpr std::int64_t kFirstSearchRound = 2000;  // moves of each lane; every round doubles
constexpr int kExhaustiveRound = 0;               // after which all placements are tried, if few
constexpr std::int64_t kLongestSearchRound = 512'000;
constexpr double kFlowPhase = 0.75;         // of a round's moves; the rest goes to depth
constexpr double kHotAgain = 0.3;           // temperature after a target was reached
constexpr double kStepWithoutBound = 0.05;  // how far above the best flow one looks at most

// How far between the best flow and the bound the rounds aim, in turn.
constexpr double kAims[] = {0.1, 1.0, 0.3, 0.03, 0.6};

// Energy of the second phase: stages as a share of those at the start, plus so much per layer
// missing.
constexpr double kMissingWeight = 0.3;
constexpr double kDepthHot = 0.03;
constexpr double kDepthCold = 0.0003;
constexpr std::int64_t kSearchStopEvery = 64;
constexpr std::size_t kKeptShallower = 8;

// One of several searches that run apart: everything it needs and what it found.
struct Lane {
    Layers start;
    std::uint64_t seed = 0;
    std::int64_t iterations = 0;
    double aim = 0;  // between the best flow and the bound
    double hot = 0;

    Layers best;
    double flow = 0;
    std::vector<Layers> shallower;
    std::int64_t done = 0;
};

class FlowSearch {
  public:
    FlowSearch(const Evaluator& evaluator, const SearchOptions& options)
        : evaluator_(evaluator), options_(options), random_(options.seed) {
        for (int lane = 0; lane < kFlowLanes; ++lane) flows_.push_back(evaluator.target_flow());
    }

    SearchResult run(const std::vector<Placement>& starts) {
        for (const Placement& start : starts) offer(start.layers, evaluator_.flow(start.layers));
        std::int64_t length = kFirstSearchRound;
        const double flow_share = options_.flow_tolerance > 0 ? kFlowPhase : 1;
        for (int round = 0; result_.iterations < options_.iterations && !stopped(); ++round) {
            const std::int64_t left = (options_.iterations - result_.iterations) / kFlowLanes;
            const std::int64_t each = std::max<std::int64_t>(1, std::min(length, left));
            const auto for_flow = static_cast<std::int64_t>(static_cast<double>(each) * flow_share);
            const std::int64_t before = result_.iterations;
            if (!proven()) towards_flow(starts, round, for_flow);
            if (round == kExhaustiveRound) enumerate();
            if (result_.flow > 0 && each > for_flow) towards_depth(starts, each - for_flow);
            if (result_.iterations == before) break;  // nothing left to look for
            length = std::min(2 * length, kLongestSearchRound);
        }
        result_.proven = proven();
        return std::move(result_);
    }

  private:
    // Asked by all lanes; once true, `stop` is not asked again.
    bool stopped() const {
        if (!stopped_ && options_.stop && options_.stop()) stopped_ = true;
        return stopped_;
    }
    bool reaches_bound(double flow) const {
        return options_.upper_bound > 0 && flow >= options_.upper_bound * (1 - 1e-9);
    }
    bool proven() const { return enumerated_ || reaches_bound(result_.flow); }

    // What the annealing has found makes most branches hopeless from the start.
    void enumerate() {
        if (proven() || options_.exhaustive_steps <= 0) return;
        const Exhaustive all = exhaustive_placement(
            evaluator_, result_.most_flow,
            {.most_steps = options_.exhaustive_steps, .stop = [this] { return stopped(); }});
        offer(all.placement.layers, all.flow);
        enumerated_ = all.complete;
    }

    bool offer(const Layers& layers, double flow) {
        if (!result_.most_flow.layers.empty() && flow <= result_.flow) return false;
        result_.most_flow.layers = layers;
        result_.flow = flow;
        return true;
    }

    double target(double flow, double aim) const {
        const double wanted = options_.upper_bound > 0
                                  ? flow + aim * (options_.upper_bound * (1 - 1e-10) - flow)
                                  : flow * (1 + aim * kStepWithoutBound);
        return std::max(wanted, 1e-3);
    }

    template <typename Job>
    void run_lanes(std::vector<Lane>& lanes, const Job& job) {
        const auto one = [&](int lane) {
            job(lanes[static_cast<std::size_t>(lane)], flows_[static_cast<std::size_t>(lane)]);
        };
        run_jobs(options_.executor, kFlowLanes, one);
        for (const Lane& lane : lanes) result_.iterations += lane.done;
    }

    void towards_flow(const std::vector<Placement>& starts, int round, std::int64_t each) {
        std::vector<Lane> lanes(kFlowLanes);
        for (int k = 0; k < kFlowLanes; ++k) {
            Lane& lane = lanes[static_cast<std::size_t>(k)];
            const bool elsewhere = k > 0;
            lane.start =
                elsewhere ? starts[random_.below(starts.size())].layers : result_.most_flow.layers;
            lane.aim = kAims[static_cast<std::size_t>(round + 2 * k) % std::size(kAims)];
            lane.seed = random_.next();
            lane.iterations = each;
            lane.hot = elsewhere ? 1.0 : 0.3;
            lane.flow = result_.flow;
        }
        run_lanes(lanes, [this](Lane& lane, TargetFlow& flow) { climb(lane, flow); });
        bool better = false;
        for (const Lane& lane : lanes) {
            if (!lane.best.empty()) better |= offer(lane.best, lane.flow);
        }
        if (better && options_.progress) options_.progress(result_.flow);
    }

    // From target to target; after each that was reached the next lies above it.
    void climb(Lane& lane, TargetFlow& flow) const {
        AnnealOptions options;
        options.hot = lane.hot;
        options.stop = [this] { return stopped(); };
        options.seen = [&](const Layers& layers) {
            const double found = evaluator_.flow(layers);
            if (found <= lane.flow) return;
            lane.flow = found;
            lane.best = layers;
        };
        Layers start = lane.start;
        for (std::uint64_t part = 0; lane.done < lane.iterations && !reaches_bound(lane.flow);
             ++part) {
            options.target = target(lane.flow, lane.aim);
            options.seed = base::hash_pair(lane.seed, part);
            options.iterations = lane.iterations - lane.done;
            const double before = lane.flow;
            const Annealed found = anneal_to_target(flow, evaluator_.capacities(),
                                                    evaluator_.n_layers(), start, options);
            lane.done += found.iterations;
            if (found.missing > 0 || lane.flow <= before) return;
            start = lane.best;
            options.hot = kHotAgain;
        }
    }

    void towards_depth(const std::vector<Placement>& starts, std::int64_t each) {
        const double floor = result_.flow * (1 - options_.flow_tolerance);
        std::erase_if(result_.shallower,
                      [&](const Placement& p) { return evaluator_.flow(p.layers) < floor; });
        std::vector<Placement> known = starts;
        known.insert(known.end(), result_.shallower.begin(), result_.shallower.end());
        Layers start = result_.most_flow.layers;
        double depth = evaluator_.depth_estimate(start);
        for (const Placement& other : known) {
            const double other_depth = evaluator_.depth_estimate(other.layers);
            if (other_depth < depth && evaluator_.flow(other.layers) >= floor) {
                start = other.layers;
                depth = other_depth;
            }
        }
        std::vector<Lane> lanes(kFlowLanes);
        for (Lane& lane : lanes) {
            lane.start = start;
            lane.seed = random_.next();
            lane.iterations = each;
        }
        run_lanes(lanes, [&](Lane& lane, TargetFlow& flow) { flatten(lane, flow, floor); });
        for (const Lane& lane : lanes) {
            for (const Layers& layers : lane.shallower) {
                const double found = evaluator_.depth_estimate(layers);
                if (found >= depth * (1 - 1e-9)) continue;
                depth = found;
                result_.shallower.push_back({layers});
            }
        }
        while (result_.shallower.size() > kKeptShallower)
            result_.shallower.erase(result_.shallower.begin());
    }

    // Fewer stages at a flow of at least `floor`.
    void flatten(Lane& lane, TargetFlow& flow, double floor) const {
        base::Random random(lane.seed);
        Mover mover(evaluator_.capacities(), evaluator_.n_layers(), random);
        Layers current = lane.start;
        Layers moved;
        double least = evaluator_.depth_estimate(current);
        const double scale = std::max(1.0, least);
        double energy = least / scale + kMissingWeight * flow.missing(current, floor);
        flow.keep_prices();
        for (; lane.done < lane.iterations; ++lane.done) {
            if (lane.done % kSearchStopEvery == 0 && stopped()) return;
            const double share =
                static_cast<double>(lane.done) / static_cast<double>(lane.iterations);
            const double temperature = kDepthHot * std::pow(kDepthCold / kDepthHot, share);
            moved = current;
            mover.move(moved, random_layer(random));
            if (moved == current) continue;
            const double depth = evaluator_.depth_estimate(moved);
            const double most = energy - temperature * std::log(1 - random.uniform());
            if (depth / scale > most) continue;
            const double missing =
                flow.missing(moved, floor, (most - depth / scale) / kMissingWeight);
            const double next = depth / scale + kMissingWeight * missing;
            if (next > most) continue;
            flow.keep_prices();
            current.swap(moved);
            energy = next;
            if (missing > 0 || depth >= least * (1 - 1e-9)) continue;
            if (evaluator_.flow(current) < floor) continue;
            least = depth;
            lane.shallower.push_back(current);
        }
    }

    std::int32_t random_layer(base::Random& random) const {
        return static_cast<std::int32_t>(
            random.below(static_cast<std::uint64_t>(evaluator_.n_layers())));
    }

    const Evaluator& evaluator_;
    const SearchOptions& options_;
    base::Random random_;
    std::vector<TargetFlow> flows_;
    SearchResult result_;
    bool enumerated_ = false;
    mutable std::atomic<bool> stopped_ = false;
};

}  // namespace

SearchResult search_placement(const Evaluator& evaluator, const std::vector<Placement>& starts,
                              const SearchOptions& options) {
    CHECK(!starts.empty());
    return FlowSearch(evaluator, options).run(starts);
}

}  // namespace helix::plan
