#include "node/idle_workers.h"

#include <utility>

#include <fmt/format.h>

#include "spec/units.h"

namespace helix::node {
namespace {

std::string reason(const spec::NodeSpec& node, const spec::ModelSpec& model) {
    if (node.memory_bytes < model.layer_bytes) {
        return fmt::format("its memory of {} holds no layer, which has {}",
                           spec::format_bytes(node.memory_bytes),
                           spec::format_bytes(model.layer_bytes));
    }
    return fmt::format(
        "with its {} the plan would not get at least 5 % more through, or not enough more for the "
        "weights that would have to move",
        spec::format_bytes(node.memory_bytes));
}

}  // namespace

std::vector<std::string> IdleWorkers::tell(const spec::ClusterSpec& cluster,
                                           const spec::ModelSpec& model,
                                           const spec::Placement& placement) {
    std::set<std::string> idle;
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < cluster.nodes.size() && i < placement.layers.size(); ++i) {
        const spec::NodeSpec& node = cluster.nodes[i];
        if (!placement.layers[i].empty()) continue;
        idle.insert(node.name);
        if (told_.contains(node.name)) continue;
        lines.push_back(fmt::format("worker {} is idle, the placement has no layers for it: {}",
                                    node.name, reason(node, model)));
    }
    told_ = std::move(idle);
    return lines;
}

}  // namespace helix::node
