#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "node/cluster_fixture.h"

// A coordinator of a real model, which deals the layers out evenly, so that every worker has some.

namespace helix::node::test_support {

using ChangeOptions = std::function<void(CoordinatorOptions&)>;

// Every machine has as many layers as the others, in the order of their names, whatever was
// measured while other things ran beside the test; those for prompts together all layers, and those
// that decode, too.
inline auto dealt_evenly(spec::ModelSpec model) {
    return [model = std::move(model)](const spec::ClusterSpec& cluster) {
        std::map<spec::NodeRole, std::map<std::string, std::size_t>> of_role;
        for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
            of_role[cluster.nodes[i].role][cluster.nodes[i].name] = i;
        }
        plan::PlanOptions manual;
        manual.method = plan::Method::manual;
        manual.manual.layers.resize(cluster.nodes.size());
        for (const auto& [role, named] : of_role) {
            const auto n = static_cast<std::int32_t>(named.size());
            std::int32_t i = 0;
            for (const auto& [name, node] : named) {
                manual.manual.layers[node] = {model.n_layers * i / n, model.n_layers * (i + 1) / n};
                ++i;
            }
        }
        return plan::plan(cluster, model, manual);
    };
}

// change is called before the planner is told of the model.
inline CoordinatorOptions even_coordinator(const std::string& path, std::int32_t workers,
                                           const ChangeOptions& change = {},
                                           const model::WeightOptions& weights = {}) {
    CoordinatorOptions options;
    auto model = open_served_model(path, weights);
    EXPECT_TRUE(model.ok()) << model.error().message;
    if (!model.ok()) return options;
    options.model = std::move(*model);
    options.core.min_workers = workers;
    options.core.settle = base::from_ms(100);
    if (change) change(options);
    options.planner = dealt_evenly(options.model.spec);
    return options;
}

// Null after a failed expectation.
inline std::unique_ptr<CoordinatorServer> start_coordinator(CoordinatorOptions options) {
    auto server = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.error().message;
    return server.ok() ? std::move(*server) : nullptr;
}

}  // namespace helix::node::test_support
