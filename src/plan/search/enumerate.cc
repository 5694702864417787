#include "plan/search/enumerate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace helix::plan {
namespace {

using spec::LayerRange;

constexpr std::int64_t kEnumerateStopEvery = 256;
constexpr std::int64_t kFlowSteps = 16;  // what judging a whole placement counts
constexpr double kMore = 1e-9;           // relative; less than that is not more flow

class Tree {
  public:
    Tree(const Evaluator& evaluator, const spec::Placement& start, const ExhaustiveOptions& options)
        : evaluator_(evaluator), options_(options), layers_(start.layers.size()) {
        result_.placement = start;
        result_.flow = evaluator.flow(start.layers);
        const std::size_t n = start.layers.size();
        order_.resize(n);
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        // Those that matter most first, so that hopeless branches show early.
        std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return most_token_layers(a, kAnyFlow) > most_token_layers(b, kAnyFlow);
        });
        coverage_.assign(static_cast<std::size_t>(evaluator.n_layers()), 0.0);
        update_rest();
    }

    Exhaustive run() {
        place(0);
        result_.complete = !ended_;
        return std::move(result_);
    }

  private:
    static constexpr double kAnyFlow = 1e300;

    double most_token_layers(std::size_t node, double flow) const {
        const std::vector<double>& speeds = evaluator_.capacities().nodes[node].tokens_per_s;
        double most = 0;
        for (std::size_t j = 1; j < speeds.size(); ++j)
            most = std::max(most, static_cast<double>(j) * std::min(speeds[j], flow));
        return most;
    }

    // What the nodes from position k on can do for a flow just above the best.
    void update_rest() {
        wanted_ = result_.flow * (1 + kMore);
        rest_.assign(order_.size() + 1, 0.0);
        for (std::size_t k = order_.size(); k-- > 0;)
            rest_[k] = rest_[k + 1] + most_token_layers(order_[k], wanted_);
    }

    bool hopeless(std::size_t k) const {
        double lacking = 0;
        for (const double covered : coverage_) lacking += std::max(0.0, wanted_ - covered);
        // The slack keeps rounding from cutting off what just suffices.
        return lacking > rest_[k] + 1e-9 * (1 + wanted_) * static_cast<double>(coverage_.size());
    }

    bool out_of_steps() {
        ++result_.steps;
        if (options_.most_steps >= 0 && result_.steps > options_.most_steps) ended_ = true;
        if (options_.stop && result_.steps % kEnumerateStopEvery == 0 && options_.stop())
            ended_ = true;
        return ended_;
    }

    void place(std::size_t k) {
        if (out_of_steps() || hopeless(k)) return;
        if (k == order_.size()) {
            judge();
            return;
        }
        const std::size_t node = order_[k];
        const NodeCapacity& capacity = evaluator_.capacities().nodes[node];
        const std::int32_t n_layers = evaluator_.n_layers();
        for (std::int32_t size = std::min(capacity.most(), n_layers); size > 0; --size) {
            for (std::int32_t begin = 0; begin + size <= n_layers; ++begin) {
                const LayerRange range{begin, begin + size};
                if (!capacity.fits(range, n_layers)) continue;
                cover(range, capacity.throughput(range));
                layers_[node] = range;
                place(k + 1);
                cover(range, -capacity.throughput(range));
                if (ended_) return;
            }
        }
        layers_[node] = {};
        place(k + 1);
    }

    void cover(LayerRange range, double tokens_per_s) {
        for (std::int32_t l = range.begin; l < range.end; ++l)
            coverage_[static_cast<std::size_t>(l)] += tokens_per_s;
    }

    void judge() {
        result_.steps += kFlowSteps;
        const double flow = evaluator_.flow(layers_);
        if (flow <= wanted_) return;
        result_.flow = flow;
        result_.placement.layers = layers_;
        update_rest();
    }

    const Evaluator& evaluator_;
    const ExhaustiveOptions& options_;
    std::vector<std::size_t> order_;
    std::vector<double> rest_;      // [position]
    std::vector<double> coverage_;  // [layer], of the nodes placed so far
    std::vector<LayerRange> layers_;
    double wanted_ = 0;
    bool ended_ = false;
    Exhaustive result_;
};

}  // namespace

Exhaustive exhaustive_placement(const Evaluator& evaluator, const spec::Placement& start,
                                const ExhaustiveOptions& options) {
    CHECK(start.layers.size() == static_cast<std::size_t>(evaluator.n_nodes()));
    return Tree(evaluator, start, options).run();
}

}  // namespace helix::plan
