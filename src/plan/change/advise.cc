#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "plan/change/what_if.h"
#include "plan/problem/problem.h"
#include "spec/catalogue.h"
#include "spec/near_names.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::kCoordinator;

constexpr double kFarLatencyS = 5e-3;
constexpr std::size_t kMostLinks = 8;  // candidates among the links of the cut
constexpr double kNoise = 1e-3;        // a gain below this share of the flow is none
constexpr double kFree = 1e-3;         // USD an hour; nothing counts as cheaper

struct Choice {
    Change change;
    double usd_per_hour = 0;
};

struct State {
    ClusterSpec cluster;
    spec::Placement placement;
    double value = 0;
};

class Advisor {
  public:
    Advisor(const spec::ModelSpec& model, const CapacityFunction& capacities,
            const PredictFunction& predict, const AdviceOptions& options)
        : model_(model), capacities_(capacities), predict_(predict), options_(options) {}

    base::Result<AdviceReport> run(const ClusterSpec& cluster, const spec::Placement& current) {
        State state{cluster, current, 0};
        TRY(const CapacityTable speeds, capacities_(cluster));
        TRY_VOID(check_placement({cluster, model_, speeds}, current));
        // Four times as long as a candidate, which then starts from here: what a candidate gains is
        // not what the search would have found anyway.
        if (auto found = judge(cluster, current, 4 * options_.iterations); found.ok())
            state = std::move(*found);
        report_.tokens_per_s = state.value;
        for (std::int32_t pick = 0; pick < options_.picks && !report_.stopped; ++pick) {
            std::optional<std::pair<Advice, State>> best = best_change(state, pick == 0);
            if (!best) break;
            report_.picks.push_back(best->first);
            state = std::move(best->second);
        }
        return std::move(report_);
    }

  private:
    bool stopped() {
        if (!report_.stopped && options_.stop) report_.stopped = options_.stop();
        return report_.stopped;
    }

    base::Result<State> judge(const ClusterSpec& cluster, const spec::Placement& start,
                              std::int64_t iterations) const {
        TRY(const CapacityTable speeds, capacities_(cluster));
        const Problem problem = {cluster, model_, speeds};
        ReplanOptions options{.flow = options_.flow,
                              .seed = options_.seed,
                              .iterations = iterations,
                              .stop = options_.stop};
        if (predict_) {
            options.objective = [&](const spec::Placement& placement) {
                return predict_(problem, placement);
            };
        }
        TRY(ReplanReport found, replan(problem, start, options));
        return State{cluster, std::move(found.placement), found.value};
    }

    std::optional<std::pair<Advice, State>> best_change(const State& state, bool first) {
        const std::vector<Choice> candidates = candidates_of(state);
        std::optional<std::pair<Advice, State>> best;
        int done = 0;
        for (const Choice& candidate : candidates) {
            if (stopped()) break;
            const std::string name = to_string(candidate.change);
            if (options_.progress)
                options_.progress(done++, static_cast<int>(candidates.size()), name);
            const auto changed = apply_change(state.cluster, candidate.change);
            if (!changed.ok()) {
                skip(name, changed.error());
                continue;
            }
            auto after = judge(changed->cluster, carry_over(state.placement, changed->origin),
                               options_.iterations);
            if (!after.ok()) {
                skip(name, after.error());
                continue;
            }
            Advice advice{.change = candidate.change,
                          .usd_per_hour = candidate.usd_per_hour,
                          .tokens_per_s = after->value,
                          .gain = after->value - state.value,
                          .gain_per_usd = 0};
            if (advice.gain <= kNoise * state.value) continue;
            advice.gain_per_usd = advice.gain / std::max(advice.usd_per_hour, kFree);
            if (first) report_.ranked.push_back(advice);
            if (!best || advice.gain_per_usd > best->first.gain_per_usd)
                best.emplace(advice, std::move(*after));
        }
        if (first) {
            std::stable_sort(
                report_.ranked.begin(), report_.ranked.end(),
                [](const Advice& a, const Advice& b) { return a.gain_per_usd > b.gain_per_usd; });
        }
        return best;
    }

    // Once for each change.
    void skip(const std::string& name, const base::Error& error) {
        const std::string line = name + ": " + error.message;
        if (std::find(report_.skipped.begin(), report_.skipped.end(), line) ==
            report_.skipped.end()) {
            report_.skipped.push_back(line);
        }
    }

    std::vector<Choice> candidates_of(const State& state) {
        std::vector<Choice> candidates;
        std::map<std::string, std::string> types;  // folded, to what to write
        for (const std::string& type : options_.types) types.emplace(spec::folded_name(type), type);
        std::set<std::string> regions;
        std::map<std::pair<std::string, std::string>, std::string> kinds;  // to a machine's name
        for (const spec::NodeSpec& node : state.cluster.nodes) {
            if (!node.type.empty()) types.insert_or_assign(spec::folded_name(node.type), node.type);
            regions.insert(node.region);
            kinds.emplace(std::pair(node.region, node.type), node.name);
        }
        for (const auto& [folded, type] : types) {
            const std::optional<double> price = price_of(type);
            if (!price) continue;
            for (const std::string& region : regions)
                candidates.push_back({AddMachines{type, region, 1}, *price});
            for (const auto& [kind, name] : kinds) {
                const std::optional<double> old_price = price_of(kind.second);
                if (!old_price || *price <= *old_price) continue;
                candidates.push_back({UpgradeMachine{name, type}, *price - *old_price});
            }
        }
        add_links(state, candidates);
        return candidates;
    }

    std::optional<double> price_of(const std::string& type) {
        if (type.empty()) return std::nullopt;
        for (const auto& [name, price] : options_.prices) {
            if (spec::folded_name(name) == spec::folded_name(type)) return price;
        }
        const auto known = spec::find_machine_type(type);
        if (known.ok()) return known->price_usd_per_hour;
        skip("machines of type " + type, base::invalid("the price is not known"));
        return std::nullopt;
    }

    // The links of the minimum cut; those between two regions together.
    void add_links(const State& state, std::vector<Choice>& candidates) const {
        const auto speeds = capacities_(state.cluster);
        if (!speeds.ok()) return;
        const ClusterSpec& cluster = state.cluster;
        const FlowPlan flow = plan_flow(
            cluster, build_flow_graph({cluster, model_, *speeds}, state.placement, options_.flow));
        struct Wanted {
            double bandwidth = 0;
            double price = 0;
        };
        std::map<std::string, Wanted> wanted;
        for (const FlowGraph::Meaning& part : flow.cut) {
            if (part.kind != FlowGraph::Kind::link) continue;
            const spec::LinkSpec& link = cluster.links[static_cast<std::size_t>(part.index)];
            const auto [ends, trunk] = ends_of(cluster, link);
            if (!wanted.contains(ends) && wanted.size() == kMostLinks) continue;
            Wanted& entry = wanted[ends];
            const double bandwidth = trunk > 0 ? trunk : link.bandwidth_bytes_per_s;
            const double more_gbit = (options_.link_factor - 1) * bandwidth * 8 / 1e9;
            const double price =
                more_gbit * (link.latency_s > kFarLatencyS ? options_.far_gbit_price
                                                           : options_.near_gbit_price);
            entry.bandwidth = std::max(entry.bandwidth, options_.link_factor * bandwidth);
            entry.price = trunk > 0 ? price : entry.price + price;
        }
        for (const auto& [ends, entry] : wanted) {
            candidates.push_back({SetLink{ends, entry.bandwidth, std::nullopt}, entry.price});
        }
    }

    // How --link names it, and the bandwidth of the trunk it is part of, else 0.
    static std::pair<std::string, double> ends_of(const ClusterSpec& cluster,
                                                  const spec::LinkSpec& link) {
        const auto region = [&](std::int32_t i) {
            return i == kCoordinator ? cluster.coordinator_region
                                     : cluster.nodes[static_cast<std::size_t>(i)].region;
        };
        std::pair both(region(link.from), region(link.to));
        if (both.first.empty() || both.second.empty() || both.first == both.second)
            return {spec::end_name(cluster, link.from) + ":" + spec::end_name(cluster, link.to),
                    0.0};
        double trunk = 0;
        for (const spec::TrunkSpec& other : cluster.trunks) {
            if (other.from_region == both.first && other.to_region == both.second)
                trunk = other.bandwidth_bytes_per_s;
        }
        if (both.second < both.first) std::swap(both.first, both.second);
        return {both.first + ":" + both.second, trunk};
    }

    const spec::ModelSpec& model_;
    const CapacityFunction& capacities_;
    const PredictFunction& predict_;
    const AdviceOptions& options_;
    AdviceReport report_;
};

std::string line_of(const Advice& advice) {
    return fmt::format("{:<36}{:>12.1f}{:>+11.1f}{:>9.2f}{:>14.1f}\n", to_string(advice.change),
                       advice.tokens_per_s, advice.gain, advice.usd_per_hour, advice.gain_per_usd);
}

}  // namespace

base::Result<AdviceReport> advise(const ClusterSpec& cluster, const spec::ModelSpec& model,
                                  const spec::Placement& current,
                                  const CapacityFunction& capacities,
                                  const PredictFunction& predict, const AdviceOptions& options) {
    if (options.picks < 1) return base::invalid("advice: expected at least 1 change to choose");
    if (!(options.link_factor > 1)) return base::invalid("advice: links must become faster");
    for (const std::string& type : options.types) {
        if (options.prices.contains(type)) continue;
        TRY(const spec::MachineType known, spec::find_machine_type(type));
        static_cast<void>(known);
    }
    return Advisor(model, capacities, predict, options).run(cluster, current);
}

std::string describe_advice(const AdviceReport& report) {
    std::string text = fmt::format("now {:.1f} tokens/s\n", report.tokens_per_s);
    const std::string header =
        fmt::format("{:<36}{:>12}{:>11}{:>9}{:>14}\n", "by a short search from there", "tokens/s",
                    "gain", "USD/h", "gain per USD");
    if (report.ranked.empty()) {
        text += report.stopped ? "stopped before any change was judged\n"
                               : "no single change gains anything\n";
    } else {
        text += header;
        for (const Advice& advice : report.ranked) text += line_of(advice);
    }
    if (report.picks.size() > 1) {
        text += "one after the other:\n";
        for (const Advice& advice : report.picks) text += line_of(advice);
    }
    for (const std::string& skipped : report.skipped) text += "not judged: " + skipped + "\n";
    return text + "prices are rough figures of 2025 unless given\n";
}

}  // namespace helix::plan
