#include "plan/losses/stall_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "plan/problem/machine_name.h"
#include "spec/units.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

class Losses {
  public:
    Losses(const Problem& problem, const spec::Placement& placement, const FlowOptions& options,
           const StallRule& rule)
        : problem_(problem),
          placement_(placement),
          rule_(rule),
          graph_(build_flow_graph(problem, placement, options)) {}

    std::vector<Stall> all() const {
        const MaxFlow flow = solve_max_flow(graph_.network);
        std::map<std::string, std::set<std::int32_t>> parts;
        std::set<std::string> used;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            parts[machine_name(problem_.cluster, i)].insert(static_cast<std::int32_t>(i));
        }
        // With the only machine everything is lost: that needs no figure.
        if (parts.size() < 2) return {};
        for (std::size_t e = 0; e < graph_.meaning.size(); ++e) {
            const FlowGraph::Meaning meaning = graph_.meaning[e];
            if (meaning.kind != FlowGraph::Kind::compute || flow.edge_flow[e] <= 0) continue;
            used.insert(machine_name(problem_.cluster, static_cast<std::size_t>(meaning.index)));
        }
        std::vector<Stall> stalls;
        for (const std::string& part : used) stalls.push_back(stall(part, parts[part]));
        std::stable_sort(stalls.begin(), stalls.end(), [](const Stall& a, const Stall& b) {
            return std::pair(a.possible, -a.bound_s()) < std::pair(b.possible, -b.bound_s());
        });
        return stalls;
    }

  private:
    Stall stall(const std::string& part, const std::set<std::int32_t>& lost) const {
        Stall made;
        made.part = part;
        made.detection_s = rule_.detection_s;
        made.whole = has_way(lost);
        double seconds_a_token = 0;
        if (made.whole) {
            for (std::int32_t layer = 0; layer < problem_.model.n_layers; ++layer) {
                seconds_a_token += slowest_at(layer, lost);
            }
        } else {
            made.possible = could_hold(lost);
            made.replacement_s = rule_.settle_s + rule_.plan_s + longest_load(lost);
            seconds_a_token = problem_.model.n_layers * slowest(lost);
        }
        const double chunks = std::ceil(rule_.context_tokens / rule_.chunk_tokens);
        made.recompute_s = std::max(chunks, 1.0) * rule_.chunk_tokens * rule_.requests *
                           seconds_a_token / rule_.prompt_share;
        return made;
    }

    bool has_way(const std::set<std::int32_t>& lost) const {
        std::vector<bool> reached(static_cast<std::size_t>(graph_.network.n_vertices));
        std::vector<std::int32_t> next = {graph_.network.source};
        reached[static_cast<std::size_t>(graph_.network.source)] = true;
        while (!next.empty()) {
            const std::int32_t at = next.back();
            next.pop_back();
            for (std::size_t e = 0; e < graph_.network.edges.size(); ++e) {
                const FlowNetwork::Edge& edge = graph_.network.edges[e];
                const FlowGraph::Meaning meaning = graph_.meaning[e];
                const bool gone =
                    meaning.kind == FlowGraph::Kind::compute && lost.contains(meaning.index);
                if (edge.from != at || gone || edge.capacity <= 0) continue;
                if (reached[static_cast<std::size_t>(edge.to)]) continue;
                reached[static_cast<std::size_t>(edge.to)] = true;
                next.push_back(edge.to);
            }
        }
        return reached[static_cast<std::size_t>(graph_.network.sink)];
    }

    // Seconds for a token and a layer of the slowest survivor that holds it.
    double slowest_at(std::int32_t layer, const std::set<std::int32_t>& lost) const {
        double most = 0;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            const LayerRange range = placement_.layers[i];
            if (lost.contains(static_cast<std::int32_t>(i)) || !range.contains({layer, layer + 1}))
                continue;
            const double t = problem_.capacities.nodes[i].throughput(range);
            if (t > 0) most = std::max(most, 1 / (t * range.size()));
        }
        return most;
    }

    // Of the slowest survivor, with as many layers as make it slowest.
    double slowest(const std::set<std::int32_t>& lost) const {
        double most = 0;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            if (lost.contains(static_cast<std::int32_t>(i))) continue;
            const std::vector<double>& t = problem_.capacities.nodes[i].tokens_per_s;
            for (std::size_t j = 1; j < t.size(); ++j) {
                if (t[j] > 0) most = std::max(most, 1 / (t[j] * static_cast<double>(j)));
            }
        }
        return most;
    }

    bool could_hold(const std::set<std::int32_t>& lost) const {
        std::int64_t layers = 0;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            if (!lost.contains(static_cast<std::int32_t>(i)))
                layers += problem_.capacities.nodes[i].most();
        }
        return layers >= problem_.model.n_layers;
    }

    double longest_load(const std::set<std::int32_t>& lost) const {
        std::map<std::int32_t, double> bandwidth;
        for (const spec::LinkSpec& link : problem_.cluster.links) {
            if (link.from == kCoordinator) bandwidth[link.to] = link.bandwidth_bytes_per_s;
        }
        double longest = 0;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            const auto node = static_cast<std::int32_t>(i);
            if (lost.contains(node)) continue;
            const auto link = bandwidth.find(node);
            double rate = rule_.load_bytes_per_s;
            if (link != bandwidth.end() && link->second > 0) rate = std::min(rate, link->second);
            const std::int32_t most =
                std::min(problem_.capacities.nodes[i].most(), problem_.model.n_layers);
            const auto bytes =
                static_cast<double>(spec::most_stored_bytes(problem_.model, most)) +
                static_cast<double>(problem_.model.common_bytes + problem_.model.embedding_bytes +
                                    problem_.model.head_bytes);
            longest = std::max(longest, most > 0 ? bytes / rate : 0);
        }
        return longest;
    }

    Problem problem_;
    const spec::Placement& placement_;
    const StallRule& rule_;
    FlowGraph graph_;
};

}  // namespace

std::vector<Stall> stalls_after_losses(const Problem& problem, const spec::Placement& placement,
                                       const FlowOptions& options, const StallRule& rule) {
    return Losses(problem, placement, options, rule).all();
}

std::string describe_stalls(const std::vector<Stall>& stalls, const StallRule& rule) {
    const Stall* whole = nullptr;
    const Stall* moved = nullptr;
    std::string impossible;
    for (const Stall& stall : stalls) {
        if (!stall.possible) {
            impossible += (impossible.empty() ? "" : ", ") + stall.part;
        } else if (stall.whole) {
            whole = whole == nullptr ? &stall : whole;
        } else {
            moved = moved == nullptr ? &stall : moved;
        }
    }
    std::string text;
    const auto add = [&](const Stall* stall, const std::string& how) {
        if (stall == nullptr) return;
        text += fmt::format(
            "an answer of {:.0f} tokens stands still for at most {} when {} dies: {}\n",
            rule.context_tokens, spec::format_duration(stall->bound_s()), stall->part, how);
    };
    add(whole, "it is recomputed on machines that hold the layers already");
    add(moved, "others load its layers first");
    if (!impossible.empty()) {
        text += "without " + impossible + " the model does not fit: answers wait for a machine\n";
    }
    return text;
}

}  // namespace helix::plan
