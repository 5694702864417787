#include "plan/pack/block_links.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "plan/flow/flow_network.h"
#include "plan/pack/block_cross.h"

namespace helix::plan {
namespace {

using base::at;

using LinkMap = std::map<std::pair<std::int32_t, std::int32_t>, double>;  // tokens/s

double linked_flow(const Problem& problem, const spec::Placement& placement) {
    const FlowOptions options{.partial = false};
    return max_flow_value(build_flow_graph(problem, placement, options).network);
}

// One place where a plan leaves a group: the nodes that end there and those that begin.
struct RankChange {
    std::vector<std::int32_t> ending;  // indices into the parts
    std::vector<std::int32_t> beginning;
};

// Chooses which node of a type takes which part, by exchanges that widen the changes of group.
class Assignment {
  public:
    Assignment(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
               const std::vector<NodeType>& types, BlockPlan& plan)
        : types_(types), plan_(plan), type_of_(cluster.nodes.size(), -1) {
        for (std::int32_t t = 0; at(t) < types.size(); ++t) {
            for (const std::int32_t node : types[at(t)].nodes) type_of_[at(node)] = t;
        }
        for (const spec::LinkSpec& link : cluster.links) {
            if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
            if (type_of_[at(link.from)] < 0 || type_of_[at(link.to)] < 0) continue;
            if (group(link.from) == group(link.to)) continue;
            link_[{link.from, link.to}] =
                link.bandwidth_bytes_per_s / static_cast<double>(model.activation_bytes_per_token);
        }
        find_changes();
    }

    // At most so many exchanges tried.
    void improve(std::int32_t tries, std::uint64_t seed, const std::function<bool()>& stop) {
        base::Random random(seed);
        double best = score();
        for (std::int32_t k = 0; k < tries && !edge_nodes_.empty(); ++k) {
            if (best >= enough_ || (k % 16 == 0 && stop && stop())) return;
            const std::int32_t node = edge_nodes_[random.below(edge_nodes_.size())];
            const std::int32_t holder = holder_[at(node)];
            const std::vector<std::int32_t>& alike = types_[at(type_of_[at(holder)])].nodes;
            const std::int32_t other = alike[random.below(alike.size())];
            if (other == holder) continue;
            exchange(holder, other);
            const double now = score();
            if (now >= best) {
                best = now;
            } else {
                exchange(holder, other);
            }
        }
    }

  private:
    std::int32_t group(std::int32_t node) const { return types_[at(type_of_[at(node)])].group; }

    void find_changes() {
        holder_.resize(type_of_.size());
        for (std::int32_t i = 0; at(i) < holder_.size(); ++i) holder_[at(i)] = i;
        role_ = holder_;
        roles_ = plan_.placement.layers;
        std::int32_t last_group = -1;
        std::vector<std::int32_t> ending;
        for (const PlacedBlock& block : plan_.blocks) {
            CHECK(!block.parts.empty());
            const std::int32_t here = group(block.parts.front().node);
            if (last_group >= 0 && here != last_group) {
                RankChange change{.ending = ending, .beginning = {}};
                for (const PlacedBlock::Part& part : block.parts) {
                    if (part.layers.begin == block.layers.begin)
                        change.beginning.push_back(part.node);
                }
                for (const auto* side : {&change.ending, &change.beginning})
                    edge_nodes_.insert(edge_nodes_.end(), side->begin(), side->end());
                changes_.push_back(std::move(change));
                enough_ += plan_.flow;
            }
            last_group = here;
            ending.clear();
            for (const PlacedBlock::Part& part : block.parts) {
                if (part.layers.end == block.layers.end) ending.push_back(part.node);
            }
        }
    }

    // Roles are named by the nodes that had them at first; holder_[role] has it now.
    void exchange(std::int32_t a, std::int32_t b) {
        std::swap(role_[at(a)], role_[at(b)]);
        holder_[at(role_[at(a)])] = a;
        holder_[at(role_[at(b)])] = b;
    }

    double throughput(std::int32_t role) const {
        return types_[at(type_of_[at(role)])].throughput(roles_[at(role)].size());
    }

    // What crosses, summed over the changes, each at most the plan's flow.
    double score() const {
        double sum = 0;
        for (const RankChange& change : changes_) {
            FlowNetwork network;
            network.source = 0;
            network.sink = 1;
            const auto n_ending = static_cast<std::int32_t>(change.ending.size());
            network.n_vertices = 2 + n_ending + static_cast<std::int32_t>(change.beginning.size());
            for (std::int32_t u = 0; u < n_ending; ++u)
                network.edges.push_back({0, 2 + u, throughput(change.ending[at(u)])});
            for (std::int32_t v = 0; at(v) < change.beginning.size(); ++v) {
                const std::int32_t vertex = 2 + n_ending + v;
                network.edges.push_back({vertex, 1, throughput(change.beginning[at(v)])});
                for (std::int32_t u = 0; u < n_ending; ++u) {
                    const auto found = link_.find(
                        {holder_[at(change.ending[at(u)])], holder_[at(change.beginning[at(v)])]});
                    if (found != link_.end())
                        network.edges.push_back({2 + u, vertex, found->second});
                }
            }
            sum += std::min(max_flow_value(network), plan_.flow);
        }
        return sum;
    }

  public:
    // Writes the exchanges into the plan.
    void apply() {
        for (std::int32_t role = 0; at(role) < roles_.size(); ++role)
            plan_.placement.layers[at(holder_[at(role)])] = roles_[at(role)];
        for (PlacedBlock& block : plan_.blocks) {
            for (PlacedBlock::Part& part : block.parts) part.node = holder_[at(part.node)];
        }
    }

  private:
    const std::vector<NodeType>& types_;
    BlockPlan& plan_;
    std::vector<std::int32_t> type_of_;    // [node]
    LinkMap link_;                         // between groups
    std::vector<spec::LayerRange> roles_;  // [role]
    std::vector<std::int32_t> holder_;     // [role]: node
    std::vector<std::int32_t> role_;       // [node]
    std::vector<RankChange> changes_;
    std::vector<std::int32_t> edge_nodes_;  // roles at changes
    double enough_ = 0;                     // a score that cannot be improved
};

// [a][b]: the `share` quantile of the links from group a to group b.
std::vector<std::vector<double>> link_widths(const spec::ClusterSpec& cluster,
                                             const spec::ModelSpec& model,
                                             const std::vector<std::int32_t>& group,
                                             std::int32_t n_groups, double share) {
    std::vector<std::vector<std::vector<double>>> all(
        at(n_groups), std::vector<std::vector<double>>(at(n_groups)));
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
        all[at(group[at(link.from)])][at(group[at(link.to)])].push_back(
            link.bandwidth_bytes_per_s / static_cast<double>(model.activation_bytes_per_token));
    }
    std::vector<std::vector<double>> width(at(n_groups), std::vector<double>(at(n_groups), 0));
    for (std::int32_t a = 0; a < n_groups; ++a) {
        for (std::int32_t b = 0; b < n_groups; ++b) {
            std::vector<double>& some = all[at(a)][at(b)];
            if (a == b || some.empty()) continue;
            std::sort(some.begin(), some.end());
            width[at(a)][at(b)] =
                some[static_cast<std::size_t>(share * static_cast<double>(some.size() - 1))];
        }
    }
    return width;
}

}  // namespace

void assign_to_links(const Problem& problem, const BlockOptions& options, BlockPlan& plan) {
    const std::vector<std::int32_t> group =
        link_groups(problem.cluster, problem.model, plan.flow * (1 - 1e-9));
    const std::vector<NodeType> types = node_types(problem, group);
    Assignment assignment(problem.cluster, problem.model, types, plan);
    assignment.improve(2000, options.seed, options.stop);
    const double before = linked_flow(problem, plan.placement);
    BlockPlan changed = plan;
    std::swap(changed, plan);
    assignment.apply();
    plan.flow = linked_flow(problem, plan.placement);
    if (plan.flow < before) {
        plan = std::move(changed);
        plan.flow = before;
    }
}

std::optional<BlockPlan> best_linked_blocks(const Problem& problem, double upper,
                                            const BlockOptions& options) {
    std::optional<BlockPlan> best;
    if (upper <= 0) return best;
    const std::vector<std::int32_t> group = link_groups(problem.cluster, problem.model, upper);
    const std::int32_t n_groups =
        group.empty() ? 0 : *std::max_element(group.begin(), group.end()) + 1;
    if (n_groups < 2 || n_groups > Crossings::kMostGroups) return best;
    // From hopeful to safe: how wide a link is taken to be decides how many nodes must meet.
    for (const double share : {1.0, 0.9, 0.5, 0.1}) {
        if (options.stop && options.stop()) break;
        BlockOptions linked = options;
        linked.link = link_widths(problem.cluster, problem.model, group, n_groups, share);
        BlockPacker packer(node_types(problem, group),
                           static_cast<std::int32_t>(problem.cluster.nodes.size()),
                           problem.model.n_layers);
        auto plan = packer.best(upper, linked);
        if (!plan || (best && plan->flow <= best->flow)) continue;
        const double hoped = plan->flow;
        assign_to_links(problem, options, *plan);
        const bool all = plan->flow >= hoped * (1 - 1e-9);
        if (!best || plan->flow > best->flow) best = std::move(plan);
        if (all) break;  // narrower links cannot give more
    }
    return best;
}

}  // namespace helix::plan
