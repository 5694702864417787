#include "plan/milp/milp_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using mip::kInfinity;
using spec::kCoordinator;
using spec::LayerRange;
using spec::Placement;

using base::at;

double nic_limit(const spec::NodeSpec& node, const spec::ModelSpec& model) {
    double least = kInfinity;
    for (const double nic : {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s}) {
        if (nic > 0) least = std::min(least, nic);
    }
    return least / static_cast<double>(model.activation_bytes_per_token);
}

}  // namespace

MilpProgram::MilpProgram(const Problem& problem,
                         const std::vector<std::pair<std::int32_t, std::int32_t>>& links,
                         const MilpFormulation& formulation)
    : problem_(problem), formulation_(formulation), n_layers_(problem.model.n_layers) {
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
    add_columns();
    add_edges(links);
    add_node_rows();
    add_validity_rows();
    if (formulation.flow_bound > 0) add_work_row();
    if (formulation.order_equals) {
        find_equals();
        add_order_rows();
    }
}

std::int32_t MilpProgram::add_column(std::string name, double upper, Priority priority) {
    program_.columns.push_back({std::move(name), 0, upper, 0, priority != kContinuous, priority});
    return static_cast<std::int32_t>(program_.columns.size()) - 1;
}

void MilpProgram::add_row(std::string name, double lower, Terms terms, double upper) {
    program_.rows.push_back({std::move(name), lower, upper, std::move(terms)});
}

void MilpProgram::add_columns() {
    for (std::size_t i = 0; i < problem_.capacities.nodes.size(); ++i) {
        const double most = formulation_.remove_redundant ? kInfinity : n_layers_ - 1;
        s_.push_back(add_column(fmt::format("s_{}", i), most, kPlace));
    }
    for (std::size_t i = 0; i < problem_.capacities.nodes.size(); ++i) {
        const NodeCapacity& node = problem_.capacities.nodes[i];
        double limit = nic_limit(problem_.cluster.nodes[i], problem_.model);
        if (formulation_.flow_bound > 0) limit = std::min(limit, formulation_.flow_bound);
        std::vector<double> speeds = {0};
        b_.push_back(static_cast<std::int32_t>(program_.columns.size()));
        for (std::int32_t k = 1; k <= std::min(node.most(), n_layers_); ++k) {
            add_column(fmt::format("b_{}_{}", i, k), 1, kSize);
            speeds.push_back(std::min(limit, node.tokens_per_s[at(k)]));
        }
        throughput_.push_back(std::move(speeds));
    }
}

double MilpProgram::fastest(std::int32_t node) const {
    if (node == kCoordinator) return kInfinity;
    return *std::max_element(throughput_[at(node)].begin(), throughput_[at(node)].end());
}

void MilpProgram::add_edges(const std::vector<std::pair<std::int32_t, std::int32_t>>& links) {
    std::map<std::pair<std::int32_t, std::int32_t>, double> bandwidth;
    for (const spec::LinkSpec& link : problem_.cluster.links) {
        bandwidth[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    }
    for (const auto& [from, to] : links) {
        if (from == kCoordinator && to == kCoordinator) continue;
        const auto found = bandwidth.find({from, to});
        CHECK(found != bandwidth.end());
        const bool outside = from == kCoordinator || to == kCoordinator;
        const std::int64_t bytes =
            outside ? problem_.model.token_bytes : problem_.model.activation_bytes_per_token;
        edges_.push_back({from, to, found->second / static_cast<double>(bytes), 0, 0});
    }
    const auto label = [](const char* letter, const Edge& edge) {
        return fmt::format("{}_{}_{}", letter, edge.from, edge.to);
    };
    for (Edge& edge : edges_) {
        edge.f = add_column(label("f", edge), kInfinity, kContinuous);
        if (edge.from == kCoordinator) program_.columns.back().cost = 1;
    }
    for (Edge& edge : edges_) edge.d = add_column(label("d", edge), 1, kLink);
    if (!formulation_.partial) return;
    for (Edge& edge : edges_) {
        if (edge.from == kCoordinator || edge.to == kCoordinator) continue;
        edge.c1 = add_column(label("c1", edge), 1, kHelper);
        edge.c2 = add_column(label("c2", edge), 1, kHelper);
    }
}

void MilpProgram::append_end(Terms& terms, std::int32_t node, double factor) const {
    terms.push_back({s_[at(node)], factor});
    for (std::size_t k = 1; k < throughput_[at(node)].size(); ++k) {
        terms.push_back(
            {b_[at(node)] + static_cast<std::int32_t>(k) - 1, factor * static_cast<double>(k)});
    }
}

void MilpProgram::add_node_rows() {
    const auto n = static_cast<std::int32_t>(s_.size());
    std::vector<Terms> in(at(n));
    std::vector<Terms> out(at(n));
    for (const Edge& edge : edges_) {
        if (edge.to != kCoordinator) in[at(edge.to)].push_back({edge.f, 1});
        if (edge.from != kCoordinator) out[at(edge.from)].push_back({edge.f, -1});
    }
    for (std::int32_t i = 0; i < n; ++i) {
        Terms size;
        Terms speed = in[at(i)];
        for (std::size_t k = 1; k < throughput_[at(i)].size(); ++k) {
            const std::int32_t column = b_[at(i)] + static_cast<std::int32_t>(k) - 1;
            size.push_back({column, 1});
            speed.push_back({column, -throughput_[at(i)][k]});
        }
        // A node that can hold nothing must not make the whole program infeasible.
        const bool holds = formulation_.every_node_holds && !size.empty();
        add_row(fmt::format("size_{}", i), holds ? 1 : -kInfinity, std::move(size), 1);
        Terms end;
        append_end(end, i, 1);
        add_row(fmt::format("end_{}", i), -kInfinity, std::move(end), n_layers_);
        Terms through = in[at(i)];
        through.insert(through.end(), out[at(i)].begin(), out[at(i)].end());
        add_row(fmt::format("flow_{}", i), 0, std::move(through), 0);
        add_row(fmt::format("speed_{}", i), -kInfinity, std::move(speed), 0);
    }
    end_columns_.assign(at(n), {-1, -1});
    for (std::int32_t i = 0; i < n; ++i) add_end_limits(i);
}

// Beyond the paper: embedding and head take memory of whoever holds the first or last layer.
void MilpProgram::add_end_limits(std::int32_t node) {
    const auto& limits = problem_.capacities.nodes[at(node)].max_layers;
    const double most = limits[0][0];
    if (limits[1][1] == limits[0][0]) return;
    const std::int32_t first = add_column(fmt::format("first_{}", node), 1, kHelper);
    const std::int32_t last = add_column(fmt::format("last_{}", node), 1, kHelper);
    end_columns_[at(node)] = {first, last};
    add_row(fmt::format("first_{}", node), 1, {{s_[at(node)], 1}, {first, 1}}, kInfinity);
    Terms end;
    append_end(end, node, 1);
    end.push_back({last, -1});
    add_row(fmt::format("last_{}", node), -kInfinity, std::move(end), n_layers_ - 1);
    const auto limit = [&](double first_cost, double last_cost, double upper) {
        Terms size;
        append_end(size, node, 1);
        size.erase(size.begin());  // the size is the end without the start
        size.push_back({first, first_cost});
        size.push_back({last, last_cost});
        add_row(fmt::format("room_{}", node), -kInfinity, std::move(size), upper);
    };
    limit(most - limits[1][0], 0, most);
    limit(0, most - limits[0][1], most);
    const double both = most - limits[1][1];
    limit(both, both, most + both);
}

void MilpProgram::add_validity_rows() {
    const double layers = n_layers_;
    for (const Edge& edge : edges_) {
        double capacity = edge.capacity;
        if (formulation_.flow_bound > 0) capacity = std::min(capacity, formulation_.flow_bound);
        if (formulation_.cap_links) {
            capacity = std::min({capacity, fastest(edge.from), fastest(edge.to)});
        }
        add_row(fmt::format("link_{}_{}", edge.from, edge.to), -kInfinity,
                {{edge.f, 1}, {edge.d, -capacity}}, 0);
    }
    for (const Edge& edge : edges_) {
        const std::string label = fmt::format("valid_{}_{}", edge.from, edge.to);
        if (edge.from == kCoordinator) {
            const std::int32_t s = s_[at(edge.to)];
            add_row(label, -kInfinity, {{s, 1}, {edge.d, layers}}, layers);
            if (!formulation_.remove_redundant) add_row(label, 1, {{s, 1}, {edge.d, 1}}, kInfinity);
        } else if (edge.to == kCoordinator) {
            Terms end = {{edge.d, layers}};
            append_end(end, edge.from, -1);
            add_row(label, -kInfinity, std::move(end), 0);
            if (formulation_.remove_redundant) continue;
            end = {{edge.d, -std::max(1.0, layers - 1)}};  // a single layer needs room for d too
            append_end(end, edge.from, 1);
            add_row(label, -kInfinity, std::move(end), layers - 1);
        } else {
            add_hop_rows(edge);
        }
    }
}

void MilpProgram::add_hop_rows(const Edge& edge) {
    const double layers = n_layers_;
    const std::string label = fmt::format("valid_{}_{}", edge.from, edge.to);
    const std::int32_t start = s_[at(edge.to)];
    if (!formulation_.partial) {
        Terms before = {{edge.d, layers}, {start, -1}};
        append_end(before, edge.from, 1);
        add_row(label, -kInfinity, std::move(before), layers);
        Terms after = {{edge.d, layers}, {start, 1}};
        append_end(after, edge.from, -1);
        add_row(label, -kInfinity, std::move(after), layers);
        return;
    }
    const double big = layers + 1;
    Terms reaches = {{edge.c1, big}, {start, 1}};
    append_end(reaches, edge.from, -1);
    Terms goes_on = {{edge.c2, -big}};
    append_end(goes_on, edge.to, 1);
    append_end(goes_on, edge.from, -1);
    if (!formulation_.remove_redundant) {
        add_row(label, 1, reaches, kInfinity);
        add_row(label, -kInfinity, goes_on, 0);
        add_row(label, -kInfinity, {{edge.c1, 1}, {edge.c2, 1}, {edge.d, -1}}, 1);
    }
    add_row(label, -kInfinity, std::move(reaches), big);
    add_row(label, 1 - big, std::move(goes_on), kInfinity);
    add_row(label, -kInfinity, {{edge.d, 2}, {edge.c1, -1}, {edge.c2, -1}}, 0);
}

void MilpProgram::add_work_row() {
    Terms terms;
    for (const Edge& edge : edges_) {
        if (edge.from == kCoordinator) terms.push_back({edge.f, static_cast<double>(n_layers_)});
    }
    for (std::size_t i = 0; i < throughput_.size(); ++i) {
        for (std::size_t k = 1; k < throughput_[i].size(); ++k) {
            terms.push_back({b_[i] + static_cast<std::int32_t>(k) - 1,
                             -static_cast<double>(k) * throughput_[i][k]});
        }
    }
    add_row("work", -kInfinity, std::move(terms), 0);
}

// Alike: an exchange of the two nodes leads the program over into itself.
void MilpProgram::find_equals() {
    std::map<std::pair<std::int32_t, std::int32_t>, double> capacity;
    for (const Edge& edge : edges_) capacity[{edge.from, edge.to}] = edge.capacity;
    const auto link = [&](std::int32_t from, std::int32_t to) {
        const auto found = capacity.find({from, to});
        return found == capacity.end() ? -1.0 : found->second;
    };
    const auto n = static_cast<std::int32_t>(s_.size());
    const auto alike = [&](std::int32_t a, std::int32_t b) {
        if (throughput_[at(a)] != throughput_[at(b)]) return false;
        if (problem_.capacities.nodes[at(a)].max_layers !=
            problem_.capacities.nodes[at(b)].max_layers)
            return false;
        if (link(a, b) != link(b, a)) return false;
        for (std::int32_t k = kCoordinator; k < n; ++k) {
            if (k == a || k == b) continue;
            if (link(a, k) != link(b, k) || link(k, a) != link(k, b)) return false;
        }
        return true;
    };
    for (std::int32_t i = 0; i < n; ++i) {
        const auto group =
            std::find_if(equals_.begin(), equals_.end(), [&](const std::vector<std::int32_t>& g) {
                return std::all_of(g.begin(), g.end(), [&](std::int32_t k) { return alike(k, i); });
            });
        if (group == equals_.end()) {
            equals_.push_back({i});
        } else {
            group->push_back(i);
        }
    }
    std::erase_if(equals_, [](const auto& group) { return group.size() < 2; });
}

void MilpProgram::add_order_rows() {
    for (const std::vector<std::int32_t>& group : equals_) {
        for (std::size_t k = 1; k < group.size(); ++k) {
            add_row(fmt::format("order_{}_{}", group[k - 1], group[k]), -kInfinity,
                    {{s_[at(group[k - 1])], 1}, {s_[at(group[k])], -1}}, 0);
        }
    }
}

Placement MilpProgram::ordered(const Placement& placement) const {
    Placement result = placement;
    for (const std::vector<std::int32_t>& group : equals_) {
        std::vector<LayerRange> ranges;
        for (const std::int32_t i : group) ranges.push_back(placement.layers[at(i)]);
        std::sort(ranges.begin(), ranges.end());
        for (std::size_t k = 0; k < group.size(); ++k) result.layers[at(group[k])] = ranges[k];
    }
    return result;
}

Placement MilpProgram::filled(const Placement& placement) const {
    Placement full = placement;
    if (!formulation_.every_node_holds) return full;
    for (std::size_t i = 0; i < full.layers.size(); ++i) {
        for (std::int32_t l = 0; full.layers[i].empty() && l < n_layers_; ++l) {
            const LayerRange one{l, l + 1};
            if (problem_.capacities.nodes[i].most() > 0 &&
                problem_.capacities.nodes[i].fits(one, n_layers_))
                full.layers[i] = one;
        }
    }
    return full;
}

std::vector<double> MilpProgram::start(const Placement& wanted) const {
    const Placement placement = ordered(filled(wanted));
    std::vector<double> values(program_.columns.size(), 0.0);
    for (std::size_t i = 0; i < placement.layers.size(); ++i) {
        const LayerRange range = placement.layers[i];
        values[at(s_[i])] = range.begin;
        if (!range.empty()) values[at(b_[i] + range.size() - 1)] = 1;
        const auto [first, last] = end_columns_[i];
        if (first < 0) continue;
        values[at(first)] = range.begin == 0 ? 1 : 0;
        values[at(last)] = range.end == n_layers_ ? 1 : 0;
    }
    const FlowGraph graph = flow_graph(placement);
    const MaxFlow flow = solve_max_flow(graph.network);
    std::map<std::pair<std::int32_t, std::int32_t>, double> over;
    for (std::size_t e = 0; e < graph.meaning.size(); ++e) {
        if (graph.meaning[e].kind != FlowGraph::Kind::link) continue;
        const spec::LinkSpec& link = problem_.cluster.links[at(graph.meaning[e].index)];
        over[{link.from, link.to}] += flow.edge_flow[e];
    }
    // By the formulas of the rows, for nodes without layers too: both halves of each hold.
    const auto begin = [&](std::int32_t i) { return placement.layers[at(i)].begin; };
    const auto end = [&](std::int32_t i) { return placement.layers[at(i)].end; };
    for (const Edge& edge : edges_) {
        const auto found = over.find({edge.from, edge.to});
        if (found != over.end()) values[at(edge.f)] = found->second;
        bool valid = false;
        if (edge.from == kCoordinator) {
            valid = begin(edge.to) == 0;
        } else if (edge.to == kCoordinator) {
            valid = end(edge.from) == n_layers_;
        } else if (!formulation_.partial) {
            valid = end(edge.from) == begin(edge.to);
        } else {
            const bool reaches = begin(edge.to) <= end(edge.from);
            const bool goes_on = end(edge.from) < end(edge.to);
            values[at(edge.c1)] = reaches ? 1 : 0;
            values[at(edge.c2)] = goes_on ? 1 : 0;
            valid = reaches && goes_on;
        }
        values[at(edge.d)] = valid ? 1 : 0;
    }
    return values;
}

Placement MilpProgram::placement(const std::vector<double>& values) const {
    CHECK(values.size() == program_.columns.size());
    Placement placement;
    for (std::size_t i = 0; i < s_.size(); ++i) {
        const auto begin = static_cast<std::int32_t>(std::lround(values[at(s_[i])]));
        LayerRange range;
        for (std::size_t k = 1; k < throughput_[i].size(); ++k) {
            const auto size = static_cast<std::int32_t>(k);
            if (values[at(b_[i] + size - 1)] > 0.5) range = {begin, begin + size};
        }
        placement.layers.push_back(range);
    }
    return placement;
}

FlowGraph MilpProgram::flow_graph(const Placement& placement) const {
    FlowOptions options{.partial = formulation_.partial,
                        .convention = Convention::paper,
                        .only_links = std::vector<std::pair<std::int32_t, std::int32_t>>()};
    for (const Edge& edge : edges_) options.only_links->emplace_back(edge.from, edge.to);
    return build_flow_graph(problem_, placement, options);
}

double MilpProgram::flow(const Placement& placement) const {
    return max_flow_value(flow_graph(placement).network);
}

}  // namespace helix::plan
