#include "plan/rules/heuristics_separate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "plan/rules/heuristics.h"

namespace helix::plan {
namespace {

using spec::LayerRange;
using spec::Placement;

using base::at;

// Of each type that the cluster has, in the order of their first nodes.
std::vector<std::pair<std::string, std::vector<std::int32_t>>> nodes_by_type(
    const spec::ClusterSpec& cluster) {
    std::vector<std::pair<std::string, std::vector<std::int32_t>>> types;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const std::string& type = cluster.nodes[i].type;
        auto known = std::find_if(types.begin(), types.end(),
                                  [&](const auto& entry) { return entry.first == type; });
        if (known == types.end()) known = types.insert(types.end(), {type, {}});
        known->second.push_back(static_cast<std::int32_t>(i));
    }
    return types;
}

std::int32_t room_on(const CapacityTable& capacities, const std::vector<std::int32_t>& nodes) {
    std::int32_t room = 0;
    for (const std::int32_t i : nodes) room += capacities.nodes[at(i)].most();
    return room;
}

class PipelineBuilder {
  public:
    // most: pipelines of a type; 0 = any number.
    PipelineBuilder(const Problem& problem, std::size_t most)
        : problem_(problem), most_of_type_(most) {
        CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
        result_.placement.layers.resize(problem.cluster.nodes.size());
    }

    void add_uniform() {
        for (const auto& [type, nodes] : nodes_by_type(problem_.cluster)) add_type(type, nodes);
    }

    void add_mixed() {
        const std::vector<std::int32_t> rest = unused();
        for (std::size_t count = most_pipelines(rest); count > 0; --count) {
            const std::vector<Placement> chains = mixed_chains(rest, count);
            for (const Placement& chain : chains) add_pipeline("mixed", chain);
            if (!chains.empty()) return;
        }
    }

    base::Result<SeparatePipelines> finish() {
        if (result_.pipelines.empty()) {
            return base::Error{base::Errc::unavailable,
                               fmt::format("no separate pipeline holds the {} layers of {}: {}",
                                           problem_.model.n_layers, problem_.model.name,
                                           fmt::join(result_.notes, "; "))};
        }
        const std::vector<std::int32_t> rest = unused();
        if (!rest.empty()) {
            std::vector<std::string> names;
            for (const std::int32_t i : rest) names.push_back(problem_.cluster.nodes[at(i)].name);
            result_.notes.push_back(fmt::format("unused: {}", fmt::join(names, ", ")));
        }
        std::sort(result_.links.begin(), result_.links.end());
        return std::move(result_);
    }

  private:
    std::vector<std::int32_t> unused() const {
        std::vector<std::int32_t> nodes;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            if (result_.placement.layers[i].empty()) nodes.push_back(static_cast<std::int32_t>(i));
        }
        return nodes;
    }

    double slowest(const Placement& chain) const {
        double speed = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < chain.layers.size(); ++i) {
            if (!chain.layers[i].empty())
                speed = std::min(speed, problem_.capacities.nodes[i].throughput(chain.layers[i]));
        }
        return speed;
    }

    void add_pipeline(const std::string& type, const Placement& chain) {
        SeparatePipelines::Pipeline pipeline{type, {}, slowest(chain)};
        for (std::size_t i = 0; i < chain.layers.size(); ++i) {
            if (chain.layers[i].empty()) continue;
            pipeline.nodes.push_back(static_cast<std::int32_t>(i));
            result_.placement.layers[i] = chain.layers[i];
        }
        std::sort(pipeline.nodes.begin(), pipeline.nodes.end(),
                  [&](std::int32_t a, std::int32_t b) {
                      return chain.layers[at(a)].begin < chain.layers[at(b)].begin;
                  });
        const auto links = chain_links(pipeline.nodes);
        result_.links.insert(result_.links.end(), links.begin(), links.end());
        result_.pipelines.push_back(std::move(pipeline));
    }

    void add_type(const std::string& type, const std::vector<std::int32_t>& nodes) {
        std::size_t count = most_pipelines(nodes);
        if (most_of_type_ > 0) count = std::min(count, most_of_type_);
        for (; count > 0; --count) {
            const std::vector<Placement> chains = equal_chains(nodes, count);
            for (const Placement& chain : chains) add_pipeline(type, chain);
            if (chains.empty()) continue;
            note_beyond_tables(type, nodes);
            return;
        }
        const std::int32_t room = room_on(problem_.capacities, nodes);
        std::string note = fmt::format("the {} machines of type {} together hold {} layers of {}",
                                       nodes.size(), type, room, problem_.model.n_layers);
        if (room >= problem_.model.n_layers) note += ", but not in equal parts";
        if (problem_.capacities.nodes[at(nodes.front())].tables_end_at > 0) {
            note += ", all that their memory has room for, even beyond their tables";
        }
        result_.notes.push_back(std::move(note));
    }

    // What is planned for more layers than were measured is no measurement.
    void note_beyond_tables(const std::string& type, const std::vector<std::int32_t>& nodes) {
        std::int32_t held = 0;
        for (const std::int32_t i : nodes) {
            held = std::max(held, result_.placement.layers[at(i)].size());
        }
        const std::int32_t end = problem_.capacities.nodes[at(nodes.front())].tables_end_at;
        if (end == 0 || held <= end) return;
        result_.notes.push_back(fmt::format(
            "type {}: a machine holds {} layers where the tables end at {}: seconds per "
            "token and KV room go on as with the last layer that was measured, with "
            "room for at least {} tokens",
            type, held, end, spec::kLeastKvBeyondTables));
    }

    std::size_t most_pipelines(const std::vector<std::int32_t>& nodes) const {
        return std::min(nodes.size(),
                        at(room_on(problem_.capacities, nodes) / problem_.model.n_layers));
    }

    // `count` pipelines of equally many nodes; empty unless all fit.
    std::vector<Placement> equal_chains(const std::vector<std::int32_t>& nodes,
                                        std::size_t count) const {
        const std::size_t stages =
            std::min(nodes.size() / count, static_cast<std::size_t>(problem_.model.n_layers));
        std::vector<Placement> chains;
        for (std::size_t c = 0; c < count; ++c) {
            const auto first = nodes.begin() + static_cast<std::ptrdiff_t>(c * stages);
            const std::vector<std::int32_t> own(first, first + static_cast<std::ptrdiff_t>(stages));
            chains.push_back(
                equal_chain(own, problem_.cluster.nodes.size(), problem_.model.n_layers));
            for (const std::int32_t node : own) {
                const LayerRange range = chains.back().layers[at(node)];
                if (!problem_.capacities.nodes[at(node)].fits(range, problem_.model.n_layers))
                    return {};
            }
        }
        return chains;
    }

    // The nodes dealt, largest first, to the pipeline with least room; empty unless all hold the
    // model.
    std::vector<Placement> mixed_chains(const std::vector<std::int32_t>& nodes,
                                        std::size_t count) const {
        std::vector<std::int32_t> order = nodes;
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
            return problem_.capacities.nodes[at(a)].most() >
                   problem_.capacities.nodes[at(b)].most();
        });
        std::vector<std::vector<std::int32_t>> groups(count);
        std::vector<std::int32_t> room(count, 0);
        for (const std::int32_t node : order) {
            const auto least = std::min_element(room.begin(), room.end());
            groups[static_cast<std::size_t>(least - room.begin())].push_back(node);
            *least += problem_.capacities.nodes[at(node)].most();
        }
        std::vector<Placement> chains;
        for (std::vector<std::int32_t>& group : groups) {
            std::sort(group.begin(), group.end());
            auto chain = chain_placement(problem_.capacities, problem_.model.n_layers, group);
            if (!chain) return {};
            chains.push_back(std::move(*chain));
        }
        return chains;
    }

    Problem problem_;
    std::size_t most_of_type_;
    SeparatePipelines result_;
};

}  // namespace

Placement equal_chain(const std::vector<std::int32_t>& nodes, std::size_t n_nodes,
                      std::int32_t n_layers) {
    CHECK(!nodes.empty());
    Placement chain;
    chain.layers.resize(n_nodes);
    const auto n = static_cast<std::int32_t>(nodes.size());
    const std::int32_t larger = n_layers % n;
    std::int32_t begin = 0;
    for (std::int32_t k = 0; k < n; ++k) {
        const std::int32_t end = begin + n_layers / n + (k >= n - larger ? 1 : 0);
        chain.layers[at(nodes[at(k)])] = {begin, end};
        begin = end;
    }
    return chain;
}

std::vector<std::pair<std::int32_t, std::int32_t>> chain_links(
    const std::vector<std::int32_t>& nodes) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    std::int32_t before = spec::kCoordinator;
    for (const std::int32_t node : nodes) {
        links.emplace_back(before, node);
        before = node;
    }
    links.emplace_back(before, spec::kCoordinator);
    return links;
}

CapacityTable separate_capacities(const Problem& problem) {
    CapacityTable out;
    out.nodes = problem.capacities.nodes;
    if (problem.capacities.beyond_tables.empty()) return out;
    for (const auto& [type, nodes] : nodes_by_type(problem.cluster)) {
        if (room_on(problem.capacities, nodes) >= problem.model.n_layers) continue;
        const auto n = static_cast<std::int32_t>(nodes.size());
        const std::int32_t needed = (problem.model.n_layers + n - 1) / n;
        for (const std::int32_t i : nodes) {
            NodeCapacity& node = out.nodes[at(i)];
            node = problem.capacities.beyond_tables[at(i)];
            for (auto& row : node.max_layers) {
                for (std::int32_t& most : row) most = std::min(most, needed);
            }
            node.tokens_per_s.resize(at(node.most()) + 1);
            node.kv_tokens.resize(at(node.most()) + 1);
        }
    }
    return out;
}

base::Result<SeparatePipelines> separate_placement(const Problem& problem, std::size_t most) {
    PipelineBuilder builder(problem, most);
    builder.add_uniform();
    return builder.finish();
}

base::Result<SeparatePipelines> separate_plus_placement(const Problem& problem) {
    PipelineBuilder builder(problem, 0);
    builder.add_uniform();
    builder.add_mixed();
    return builder.finish();
}

}  // namespace helix::plan
