#pragma once

// What tests of plans with roles share.

#include <gtest/gtest.h>

#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"

namespace helix::plan {

inline spec::NodeSpec with_role(spec::NodeSpec node, spec::NodeRole role) {
    node.role = role;
    return node;
}

// Nothing flows between machines for prompts and the others.
inline void expect_groups_apart(const spec::ClusterSpec& cluster, const PlanReport& report) {
    const auto prefills = [&](std::int32_t node) {
        return cluster.nodes[static_cast<std::size_t>(node)].role == spec::NodeRole::prefill;
    };
    for (const spec::LinkFlow& flow : report.flows) {
        if (flow.from == spec::kCoordinator || flow.to == spec::kCoordinator) continue;
        EXPECT_EQ(prefills(flow.from), prefills(flow.to)) << flow.from << " -> " << flow.to;
    }
}

}  // namespace helix::plan
