#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "node/cluster_fixture.h"

// A coordinator of a real model, which deals the layers out evenly, so that every worker has some.

namespace helix::node::testing {

using ChangeOptions = std::function<void(CoordinatorOptions&)>;

// change: before the planner is told of the model.
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
    options.planner = [spec = options.model.spec](const spec::ClusterSpec& cluster) {
        plan::PlanOptions even;
        even.method = plan::Method::even;
        return plan::plan(cluster, spec, even);
    };
    return options;
}

// Null after a failed expectation.
inline std::unique_ptr<CoordinatorServer> start_coordinator(CoordinatorOptions options) {
    auto server = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.error().message;
    return server.ok() ? std::move(*server) : nullptr;
}

}  // namespace helix::node::testing
