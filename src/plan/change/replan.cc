#include "plan/change/replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "plan/bounds/bounds.h"
#include "plan/flow/evaluator.h"
#include "plan/flow/target_flow.h"
#include "plan/search/moves.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using Layers = std::vector<LayerRange>;

constexpr std::int64_t kReplanStopEvery = 16;
constexpr std::int64_t kFirstReplanRound =
    1000;  // moves towards one target; later rounds are longer
constexpr std::int64_t kLongestReplanRound = 64'000;
constexpr double kLeastBound = 1e-3;  // tokens/s; less is nothing
constexpr std::size_t kKept = 12;     // placements that the objective may choose from
constexpr double kHots[] = {0.3, 0.02, 0.005, 0.002, 0.001};  // in missing layers
constexpr double kReplanCold = 0.0003;

struct Visited {
    Layers layers;
    double flow = 0;
    double value = 0;  // by flow
};

class Replanner {
  public:
    Replanner(const Problem& problem, const Layers& current, const ReplanOptions& options)
        : model_(problem.model),
          capacities_(problem.capacities),
          options_(options),
          origin_(current),
          evaluator_(problem, options.flow),
          target_flow_(problem, options.flow),
          random_(options.seed),
          mover_(problem.capacities, problem.model.n_layers, random_),
          bound_(flow_bounds(problem).best) {}

    std::vector<Visited> run() {
        visit(origin_, evaluator_.flow(origin_));
        flow_before_ = best_.flow;
        std::int64_t length = kFirstReplanRound;
        int rounds = 0;
        while (!out_of_time()) {
            const std::int64_t before = iterations_;
            round(std::min(length, options_.iterations - iterations_));
            if (iterations_ == before) break;  // there is nothing to gain
            if (++rounds % 4 == 0) length = std::min(2 * length, kLongestReplanRound);
        }
        return std::move(visited_);
    }

    double flow_before() const { return flow_before_; }
    std::int64_t iterations() const { return iterations_; }
    double price(const Layers& layers) const {
        double price = 0;
        for (std::size_t i = 0; i < layers.size(); ++i) price += node_price(i, layers[i]);
        return price;
    }

  private:
    bool out_of_time() {
        if (stopped_ || iterations_ >= options_.iterations) return true;
        if (options_.stop && iterations_ % kReplanStopEvery == 0) stopped_ = options_.stop();
        return stopped_;
    }

    double node_price(std::size_t i, LayerRange range) const {
        if (range == origin_[i]) return 0;
        const std::int32_t kept = std::max(0, spec::intersect(origin_[i], range).size());
        const std::int32_t dropped = std::max(0, origin_[i].size()) - kept;
        return options_.price_per_byte *
                   static_cast<double>(bytes_to_load(model_, origin_[i], range)) +
               options_.price_per_kv_layer * dropped;
    }

    void visit(const Layers& layers, double flow) {
        Visited now{layers, flow, flow - price(layers)};
        if (visited_.empty() || now.value > best_.value) best_ = now;
        const auto same = [&](const Visited& other) { return other.layers == layers; };
        if (std::any_of(visited_.begin(), visited_.end(), same)) return;
        visited_.push_back(std::move(now));
        // The first is the current placement and always stays.
        std::sort(visited_.begin() + 1, visited_.end(),
                  [](const Visited& a, const Visited& b) { return a.value > b.value; });
        if (visited_.size() > kKept) visited_.resize(kKept);
    }

    // Between the best flow and the bound, near the best more often.
    double next_target() {
        const double share = std::pow(random_.uniform(), 2);
        const double low = best_.flow > 0 ? best_.flow * 1.002 : bound_ * 0.3;
        return std::max(low, low + share * (bound_ - low));
    }

    // What a placement misses of the target, and what it costs, both in layers: a flow that lacks a
    // share s of the target misses at least s layers.
    double energy_price(const Layers& layers, double target) const {
        return price(layers) / target;
    }

    void round(std::int64_t length) {
        if (bound_ < kLeastBound || best_.flow >= bound_ * (1 - 1e-9)) return;
        const double target = next_target();
        Layers current = best_.layers;
        double energy = energy_price(current, target) + target_flow_.missing(current, target);
        target_flow_.keep_prices();
        double least = energy;
        Layers best = current;
        const double hot = kHots[random_.below(std::size(kHots))];
        for (std::int64_t k = 0; k < length && !out_of_time(); ++k) {
            ++iterations_;
            const double temperature =
                hot *
                std::pow(kReplanCold / hot, static_cast<double>(k) / static_cast<double>(length));
            Layers moved = current;
            propose(moved);
            if (moved == current) continue;
            const double most = energy - temperature * std::log(1 - random_.uniform());
            const double next_cost = energy_price(moved, target);
            if (next_cost > most) continue;
            const double next = next_cost + target_flow_.missing(moved, target, most - next_cost);
            if (next > most) continue;
            current.swap(moved);
            energy = next;
            target_flow_.keep_prices();
            if (energy >= least) continue;
            least = energy;
            best = current;
        }
        if (best == best_.layers) return;
        const double before = best_.value;
        visit(best, evaluator_.flow(best));
        if (best_.value > before) undo_needless_moves();
    }

    // Mostly moves near what is there: take over the range of another, go home, cover what is
    // covered least; the rest are Mover's.
    void propose(Layers& layers) {
        const double kind = random_.uniform();
        const std::size_t i = random_.below(layers.size());
        if (kind < 0.25) {
            set(layers, i, layers[random_.below(layers.size())]);
        } else if (kind < 0.4) {
            const auto moved = moved_node(layers);
            if (moved < layers.size()) layers[moved] = origin_[moved];
        } else {
            std::int32_t weakest = static_cast<std::int32_t>(
                random_.below(static_cast<std::uint64_t>(model_.n_layers)));
            if (kind < 0.7) {
                evaluator_.coverage(layers, coverage_);
                weakest = static_cast<std::int32_t>(
                    std::min_element(coverage_.begin(), coverage_.end()) - coverage_.begin());
            }
            if (kind < 0.55) {
                take_over_at(layers, i, weakest);
            } else {
                mover_.move(layers, weakest);
            }
        }
    }

    // Node i does what some node that holds this layer does.
    void take_over_at(Layers& layers, std::size_t i, std::int32_t layer) {
        const std::size_t first = random_.below(layers.size());
        for (std::size_t k = 0; k < layers.size(); ++k) {
            const std::size_t other = (first + k) % layers.size();
            if (other == i || !layers[other].contains(layer)) continue;
            set(layers, i, layers[other]);
            return;
        }
        set(layers, i, {layer, layer + capacities_.nodes[i].most()});
    }

    // As much of the range as the node holds, from its start or up to its end.
    void set(Layers& layers, std::size_t i, LayerRange range) {
        range.end = std::min(range.end, model_.n_layers);
        const bool keep_end = random_.chance(0.5);
        while (!range.empty() && !capacities_.nodes[i].fits(range, model_.n_layers)) {
            if (keep_end) {
                ++range.begin;
            } else {
                --range.end;
            }
        }
        if (!range.empty()) layers[i] = range;
    }

    std::size_t moved_node(const Layers& layers) {
        const std::size_t first = random_.below(layers.size());
        for (std::size_t k = 0; k < layers.size(); ++k) {
            const std::size_t i = (first + k) % layers.size();
            if (layers[i] != origin_[i]) return i;
        }
        return layers.size();
    }

    // Sends nodes of the best placement home, dearest first, as long as that is worth it.
    void undo_needless_moves() {
        std::vector<std::size_t> moved;
        for (std::size_t i = 0; i < origin_.size(); ++i) {
            if (best_.layers[i] != origin_[i]) moved.push_back(i);
        }
        std::stable_sort(moved.begin(), moved.end(), [&](std::size_t a, std::size_t b) {
            return node_price(a, best_.layers[a]) > node_price(b, best_.layers[b]);
        });
        for (const std::size_t i : moved) {
            if (options_.stop && options_.stop()) return;
            Layers layers = best_.layers;
            layers[i] = origin_[i];
            const double flow = evaluator_.flow(layers);
            if (flow - price(layers) >= best_.value) {
                best_ = {layers, flow, flow - price(layers)};
                visit(layers, flow);
            }
        }
    }

    const spec::ModelSpec& model_;
    const CapacityTable& capacities_;
    const ReplanOptions& options_;
    const Layers& origin_;
    Evaluator evaluator_;
    TargetFlow target_flow_;
    base::Random random_;
    Mover mover_;
    double bound_;
    double flow_before_ = 0;
    std::int64_t iterations_ = 0;
    bool stopped_ = false;
    std::vector<double> coverage_;
    Visited best_;
    std::vector<Visited> visited_;
};

}  // namespace

double move_price(double tokens_per_s, double bytes_per_s, double horizon_s) {
    CHECK(bytes_per_s > 0 && horizon_s > 0);
    return tokens_per_s / (bytes_per_s * horizon_s);
}

base::Result<ReplanReport> replan(const Problem& problem, const spec::Placement& current,
                                  const ReplanOptions& options) {
    TRY_VOID(check_placement(problem, current));
    Replanner replanner(problem, current.layers, options);
    std::vector<Visited> visited = replanner.run();
    const Visited* best = nullptr;
    double most = 0;
    for (const Visited& candidate : visited) {
        double value = candidate.value;
        if (options.objective && candidate.flow > 0) {
            value = options.objective({candidate.layers}) - replanner.price(candidate.layers);
        }
        const bool serves = candidate.flow > 0;
        if (!serves && &candidate != &visited.front()) continue;
        if (best != nullptr && best->flow > 0 && value <= most) continue;
        best = &candidate;
        most = value;
    }
    CHECK(best != nullptr);
    if (best->flow <= 0) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("no placement of {} on {} was found near the current one in {} moves",
                        problem.model.name, problem.cluster.name, replanner.iterations())};
    }
    ReplanReport report;
    report.placement.layers = best->layers;
    report.flow_before = replanner.flow_before();
    report.flow = best->flow;
    report.value = most;
    report.diff = placement_diff(problem.cluster, problem.model, current, report.placement,
                                 options.disk_bytes_per_s);
    report.iterations = replanner.iterations();
    return report;
}

}  // namespace helix::plan
