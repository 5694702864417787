#include "plan/search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "plan/moves.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using spec::Placement;
using Layers = std::vector<LayerRange>;

constexpr double kHot = 0.03;
// Where links or exact boundaries matter, most moves break the flow on the way to a better one.
constexpr double kHotBrittle = 0.2;
constexpr double kFlowWeight = 0.3;  // of the shortfall; the rest is the layers'
constexpr double kCold = 0.0003;
constexpr double kTargetStep = 1.01;  // the target lies this far above the best flow
constexpr double kFlowPhase = 0.75;   // of a cycle's iterations; the rest goes to depth
// Cycles of annealing, each twice as long as the one before: good whenever the time runs out.
constexpr std::int64_t kFirstCycle = 4000;
constexpr std::int64_t kLongestCycle = 256'000;
constexpr std::int64_t kStopEvery = 64;

struct Judged {
    double flow = 0;
    double shortfall = 0;  // 0 where the target is met, about 1 where nothing flows
    std::int32_t weakest = 0;
};

class Search {
  public:
    Search(const Evaluator& evaluator, const SearchOptions& options)
        : evaluator_(evaluator),
          options_(options),
          random_(options.seed),
          mover_(evaluator.capacities(), evaluator.n_layers(), random_) {}

    SearchResult run(const std::vector<Placement>& starts) {
        for (const Placement& start : starts) {
            const double flow = evaluator_.flow(start.layers);
            if (result_.most_flow.layers.empty() || flow > result_.flow) {
                result_.most_flow = start;
                result_.flow = flow;
            }
        }
        std::int64_t length = kFirstCycle;
        for (int cycle = 0; result_.iterations < options_.iterations && !stopped_; ++cycle) {
            length = std::min(length, options_.iterations - result_.iterations);
            const auto for_flow =
                static_cast<std::int64_t>(static_cast<double>(length) * kFlowPhase);
            // Every third cycle leaves the best alone and looks elsewhere.
            const bool elsewhere = cycle % 3 == 2;
            const std::int64_t before = result_.iterations;
            towards_flow(for_flow, elsewhere ? starts[random_.below(starts.size())].layers
                                             : result_.most_flow.layers);
            if (result_.flow > 0) shallower_of(starts, length - for_flow);
            if (result_.iterations == before) break;  // nothing left to look for
            length = std::min(2 * length, kLongestCycle);
        }
        return std::move(result_);
    }

  private:
    bool out_of_time() {
        if (!stopped_ && options_.stop && result_.iterations % kStopEvery == 0)
            stopped_ = options_.stop();
        return stopped_;
    }

    Judged judge(const Layers& layers, double target) {
        evaluator_.coverage(layers, coverage_);
        Judged judged;
        double missing = 0;
        double least = coverage_[0];
        for (std::size_t l = 0; l < coverage_.size(); ++l) {
            if (coverage_[l] < least) {
                least = coverage_[l];
                judged.weakest = static_cast<std::int32_t>(l);
            }
            missing += std::max(0.0, 1 - coverage_[l] / target);
        }
        judged.flow = evaluator_.flow_is_least_coverage() ? least : evaluator_.flow(layers);
        judged.shortfall = (1 - kFlowWeight) * missing / static_cast<double>(coverage_.size()) +
                           kFlowWeight * std::max(0.0, 1 - judged.flow / target);
        return judged;
    }

    bool accept(double change, double temperature) {
        return change <= 0 || random_.uniform() < std::exp(-change / temperature);
    }

    double temperature(std::int64_t done, std::int64_t budget) const {
        const double hot = evaluator_.flow_is_least_coverage() ? kHot : kHotBrittle;
        return hot * std::pow(kCold / hot, static_cast<double>(done) / static_cast<double>(budget));
    }

    void towards_flow(std::int64_t budget, Layers current) {
        double target = next_target();
        Judged judged = judge(current, target);
        for (std::int64_t k = 0; k < budget && !out_of_time(); ++k) {
            if (options_.upper_bound > 0 && result_.flow >= options_.upper_bound * (1 - 1e-9))
                return;
            ++result_.iterations;
            Layers moved = current;
            mover_.move(moved, judged.weakest);
            if (moved == current) continue;
            const Judged next = judge(moved, target);
            if (!accept(next.shortfall - judged.shortfall, temperature(k, budget))) continue;
            current = std::move(moved);
            judged = next;
            if (judged.flow <= result_.flow) continue;
            result_.flow = judged.flow;
            result_.most_flow.layers = current;
            target = next_target();
            judged = judge(current, target);
        }
    }

    // From the shallowest placement known that has nearly the best flow.
    void shallower_of(const std::vector<Placement>& starts, std::int64_t budget) {
        const double floor = result_.flow * (1 - options_.flow_tolerance);
        std::erase_if(result_.shallower,
                      [&](const Placement& p) { return evaluator_.flow(p.layers) < floor; });
        std::vector<Placement> known = starts;
        known.insert(known.end(), result_.shallower.begin(), result_.shallower.end());
        Placement start = result_.most_flow;
        double depth = evaluator_.depth_estimate(start.layers);
        for (const Placement& other : known) {
            const double other_depth = evaluator_.depth_estimate(other.layers);
            if (other_depth < depth && evaluator_.flow(other.layers) >= floor) {
                start = other;
                depth = other_depth;
            }
        }
        towards_depth(budget, start, floor);
    }

    double next_target() const {
        if (result_.flow <= 0) return std::max(options_.upper_bound * 0.1, 1e-9);
        const double target = result_.flow * kTargetStep;
        return options_.upper_bound > 0
                   ? std::max(result_.flow, std::min(target, options_.upper_bound))
                   : target;
    }

    void towards_depth(std::int64_t budget, const Placement& start, double floor) {
        Layers current = start.layers;
        const double scale = std::max(1.0, evaluator_.depth_estimate(current));
        const auto energy = [&](const Layers& layers, const Judged& judged) {
            return evaluator_.depth_estimate(layers) / scale + 10 * judged.shortfall;
        };
        Judged judged = judge(current, floor);
        double value = energy(current, judged);
        double least = evaluator_.depth_estimate(current);
        const auto keep = [&](const Layers& layers, double flow) {
            const double depth = evaluator_.depth_estimate(layers);
            if (flow < floor || depth >= least * (1 - 1e-9)) return;
            least = depth;
            result_.shallower.push_back({layers});
            if (result_.shallower.size() > 8) result_.shallower.erase(result_.shallower.begin());
        };
        for (std::int64_t k = 0; k < budget && !out_of_time(); ++k) {
            ++result_.iterations;
            Layers moved = current;
            mover_.move(moved, judged.weakest);
            if (moved == current) continue;
            const Judged next = judge(moved, floor);
            const double next_value = energy(moved, next);
            if (!accept(next_value - value, temperature(k, budget))) continue;
            current = std::move(moved);
            judged = next;
            value = next_value;
            keep(current, judged.flow);
        }
    }

    const Evaluator& evaluator_;
    const SearchOptions& options_;
    base::Random random_;
    Mover mover_;
    SearchResult result_;
    std::vector<double> coverage_;
    bool stopped_ = false;
};

}  // namespace

SearchResult search_placement(const Evaluator& evaluator, const std::vector<Placement>& starts,
                              const SearchOptions& options) {
    CHECK(!starts.empty());
    return Search(evaluator, options).run(starts);
}

}  // namespace helix::plan
