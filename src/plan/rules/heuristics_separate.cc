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

class PipelineBuilder {
  public:
    // most: pipelines of a type; 0 = any number.
    PipelineBuilder(const Problem& problem, std::size_t most)
        : problem_(problem), most_of_type_(most) {
        CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
        result_.placement.layers.resize(problem.cluster.nodes.size());
    }

    void add_uniform() {
        std::vector<std::string> types;
        for (const spec::NodeSpec& node : problem_.cluster.nodes) {
            if (std::find(types.begin(), types.end(), node.type) == types.end())
                types.push_back(node.type);
        }
        for (const std::string& type : types) add_type(type);
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
        std::int32_t before = spec::kCoordinator;
        for (const std::int32_t node : pipeline.nodes) {
            result_.links.emplace_back(before, node);
            before = node;
        }
        result_.links.emplace_back(before, spec::kCoordinator);
        result_.pipelines.push_back(std::move(pipeline));
    }

    void add_type(const std::string& type) {
        std::vector<std::int32_t> nodes;
        for (std::size_t i = 0; i < problem_.cluster.nodes.size(); ++i) {
            if (problem_.cluster.nodes[i].type == type)
                nodes.push_back(static_cast<std::int32_t>(i));
        }
        std::size_t count = most_pipelines(nodes);
        if (most_of_type_ > 0) count = std::min(count, most_of_type_);
        for (; count > 0; --count) {
            const std::vector<Placement> chains = equal_chains(nodes, count);
            for (const Placement& chain : chains) add_pipeline(type, chain);
            if (!chains.empty()) return;
        }
        const std::int32_t room = room_of(nodes);
        std::string note = fmt::format("the {} machines of type {} together hold {} layers of {}",
                                       nodes.size(), type, room, problem_.model.n_layers);
        if (room >= problem_.model.n_layers) note += ", but not in equal parts";
        result_.notes.push_back(std::move(note));
    }

    std::int32_t room_of(const std::vector<std::int32_t>& nodes) const {
        std::int32_t room = 0;
        for (const std::int32_t i : nodes) room += problem_.capacities.nodes[at(i)].most();
        return room;
    }

    std::size_t most_pipelines(const std::vector<std::int32_t>& nodes) const {
        return std::min(nodes.size(), at(room_of(nodes) / problem_.model.n_layers));
    }

    // `count` pipelines of equally many nodes; empty unless all fit.
    std::vector<Placement> equal_chains(const std::vector<std::int32_t>& nodes,
                                        std::size_t count) const {
        const std::size_t stages =
            std::min(nodes.size() / count, static_cast<std::size_t>(problem_.model.n_layers));
        const auto n = static_cast<std::int32_t>(stages);
        std::vector<Placement> chains(count);
        for (std::size_t c = 0; c < count; ++c) {
            chains[c].layers.resize(problem_.cluster.nodes.size());
            std::int32_t begin = 0;
            for (std::int32_t k = 0; k < n; ++k) {
                const std::int32_t larger = problem_.model.n_layers % n;
                const LayerRange range{
                    begin, begin + problem_.model.n_layers / n + (k >= n - larger ? 1 : 0)};
                begin = range.end;
                const std::int32_t node = nodes[c * stages + at(k)];
                if (!problem_.capacities.nodes[at(node)].fits(range, problem_.model.n_layers))
                    return {};
                chains[c].layers[at(node)] = range;
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
