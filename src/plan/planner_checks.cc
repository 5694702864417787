#include "plan/planner_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/rules/heuristics.h"
#include "spec/units.h"

namespace helix::plan {

base::Status check_input(const spec::ClusterSpec& cluster, const spec::ModelSpec& model) {
    if (cluster.nodes.empty()) {
        return base::invalid(fmt::format("cluster {}: has no nodes", cluster.name));
    }
    if (model.n_layers <= 0 || model.layer_bytes <= 0 || model.activation_bytes_per_token <= 0 ||
        model.token_bytes <= 0) {
        return base::invalid(
            fmt::format("model {}: layers {}, bytes of a layer {}, of an activation {} and of a "
                        "token {} must all be above 0",
                        model.name, model.n_layers, model.layer_bytes,
                        model.activation_bytes_per_token, model.token_bytes));
    }
    return base::Ok{};
}

namespace {

// Somebody can hold all of the layers that stay together.
base::Status check_joined(const Problem& problem, const std::string& of_cluster) {
    const spec::ModelSpec& model = problem.model;
    const std::int32_t joined = model.joined_layers;
    const auto holds = [&](const NodeCapacity& node) {
        return node.fits({model.n_layers - joined, model.n_layers}, model.n_layers);
    };
    if (joined == 0 ||
        std::any_of(problem.capacities.nodes.begin(), problem.capacities.nodes.end(), holds)) {
        return base::Ok{};
    }
    const std::int64_t bytes =
        spec::most_stored_bytes(model, joined, joined == model.n_layers, true) +
        model.common_bytes + model.head_bytes;
    return base::Error{
        base::Errc::unavailable,
        fmt::format("no machine{} can hold layers {} to {} of {} ({}), which share keys and values "
                    "and stay together, with room for KV",
                    of_cluster, model.n_layers - joined, model.n_layers - 1, model.name,
                    spec::format_bytes(bytes))};
}

}  // namespace

base::Status check_holdable(const Problem& problem) {
    const auto any = [&](bool first, bool last) {
        return std::any_of(
            problem.capacities.nodes.begin(), problem.capacities.nodes.end(),
            [&](const NodeCapacity& node) { return node.max_layers[first][last] > 0; });
    };
    const std::int64_t largest =
        std::max_element(
            problem.cluster.nodes.begin(), problem.cluster.nodes.end(),
            [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; })
            ->memory_bytes;
    // A cluster that serves has no name.
    const std::string of_cluster =
        problem.cluster.name.empty() ? "" : " of " + problem.cluster.name;
    if (!any(true, false)) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format(
                "no machine{} can hold layer 0 of {} with the embedding ({}) and room "
                "for KV; the largest has {}",
                of_cluster, problem.model.name,
                spec::format_bytes(spec::most_stored_bytes(problem.model, 1, true) +
                                   problem.model.embedding_bytes + problem.model.common_bytes),
                spec::format_bytes(largest))};
    }
    if (!any(false, true)) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("no machine{} can hold layer {} of {} with the output head ({}) and room "
                        "for KV; the largest has {}",
                        of_cluster, problem.model.n_layers - 1, problem.model.name,
                        spec::format_bytes(spec::most_stored_bytes(problem.model, 1, false, true) +
                                           problem.model.head_bytes + problem.model.common_bytes),
                        spec::format_bytes(largest))};
    }
    TRY_VOID(check_joined(problem, of_cluster));
    const std::int32_t holdable = holdable_layers(problem.capacities, problem.model.n_layers);
    if (holdable >= problem.model.n_layers) return base::Ok{};
    const std::int32_t missing = problem.model.n_layers - holdable;
    return base::Error{
        base::Errc::unavailable,
        fmt::format("{}{} can hold {} of the {} layers of {}: layers {} to {} have no place; about "
                    "{} more memory is needed, and KV beside it",
                    problem.cluster.nodes.size() == 1
                        ? std::string("the only machine")
                        : fmt::format("all {} machines", problem.cluster.nodes.size()),
                    of_cluster, holdable, problem.model.n_layers, problem.model.name, holdable,
                    problem.model.n_layers - 1,
                    spec::format_bytes(spec::most_stored_bytes(problem.model, missing)))};
}

}  // namespace helix::plan
