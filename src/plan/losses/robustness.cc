#include "plan/losses/robustness.h"

#include "plan/problem/machine_name.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using base::at;

// The flow that remains when these edges are gone.
double flow_without(const FlowGraph& graph, const std::vector<std::size_t>& lost) {
    FlowNetwork rest = graph.network;
    for (const std::size_t e : lost) rest.edges[e].capacity = 0;
    return max_flow_value(rest);
}

void keep_worst(double remaining, double before, const std::string& part, Loss& worst) {
    const double share = before > 0 ? remaining / before : 0;
    if (!worst.part.empty() && share >= worst.share) return;
    worst = {.tokens_per_s = remaining, .share = share, .part = part};
}

}  // namespace

Robustness single_losses(const Problem& problem, const spec::Placement& placement,
                         const FlowOptions& options) {
    const FlowGraph graph = build_flow_graph(problem, placement, options);
    const MaxFlow all = solve_max_flow(graph.network);
    Robustness result;
    result.tokens_per_s = all.value;
    // Parts in the order of their first edge that carries something; a part without flow leaves the
    // maximum as it is.
    std::map<std::string, std::vector<std::size_t>> hosts;
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> cables;
    std::set<std::string> used_hosts;
    std::set<std::pair<std::int32_t, std::int32_t>> used_cables;
    for (std::size_t e = 0; e < graph.network.edges.size(); ++e) {
        const FlowGraph::Meaning meaning = graph.meaning[e];
        const bool carries = all.edge_flow[e] > 0;
        if (meaning.kind == FlowGraph::Kind::compute) {
            const std::string name = machine_name(problem.cluster, at(meaning.index));
            hosts[name].push_back(e);
            if (carries) used_hosts.insert(name);
        } else if (meaning.kind == FlowGraph::Kind::link) {
            const spec::LinkSpec& link = problem.cluster.links[at(meaning.index)];
            const auto ends = std::minmax(link.from, link.to);
            cables[ends].push_back(e);
            if (carries) used_cables.insert(ends);
        }
    }
    for (const std::string& host : used_hosts)
        keep_worst(flow_without(graph, hosts[host]), all.value, host, result.machine);
    for (const auto& ends : used_cables) {
        keep_worst(flow_without(graph, cables[ends]), all.value,
                   "link " + spec::end_name(problem.cluster, ends.first) + " - " +
                       spec::end_name(problem.cluster, ends.second),
                   result.link);
    }
    if (result.machine.part.empty()) result.machine.share = 0;
    if (result.link.part.empty()) result.link.share = 0;
    return result;
}

}  // namespace helix::plan
