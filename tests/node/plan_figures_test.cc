#include "node/plan_figures.h"

#include <gtest/gtest.h>

namespace helix::node::plan_figures_test {
namespace {

using Kind = plan::FlowGraph::Kind;
using CutKind = api::PlanFigures::CutKind;

TEST(PlanFigures, PartsOfTheCutAreWorkersInPlaceOfNodes) {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(3);
    cluster.links = {{spec::kCoordinator, 0, 1e9, 1e-3}, {0, 2, 1e6, 1e-3}};
    cluster.trunks.resize(1);
    cluster.trunks[0].from_region = "here";
    cluster.trunks[0].to_region = "there";
    plan::PlanReport report;
    report.placement.layers = {{0, 2}, {}, {2, 4}};
    report.max_flow_tokens_per_s = 9;
    report.upper_bound_tokens_per_s = 10;
    report.gap = 0.1;
    report.node_tokens_per_s = {20, 0, 30};
    report.node_flow = {9, 0, 9};
    report.min_cut = {{Kind::compute, 2}, {Kind::nic_in, 0}, {Kind::coordinator_out, -1},
                      {Kind::link, 1},    {Kind::link, 0},   {Kind::trunk, 0}};
    const api::PlanFigures figures =
        plan_figures_of(report, cluster, {core::WorkerId{7}, core::WorkerId{8}, core::WorkerId{9}});
    EXPECT_EQ(figures.gap, 0.1);
    ASSERT_EQ(figures.nodes.size(), 2U) << "one has no layers";
    EXPECT_EQ(figures.nodes[1].worker, core::WorkerId{9});
    EXPECT_EQ(figures.nodes[1].most_tokens_per_s, 30);
    EXPECT_EQ(figures.nodes[1].flow_tokens_per_s, 9);
    ASSERT_EQ(figures.cut.size(), 6U);
    EXPECT_EQ(figures.cut[0].kind, CutKind::machine);
    EXPECT_EQ(figures.cut[0].from, 9);
    EXPECT_EQ(figures.cut[1].kind, CutKind::network_in);
    EXPECT_EQ(figures.cut[1].from, 7);
    EXPECT_EQ(figures.cut[2].kind, CutKind::network_out);
    EXPECT_EQ(figures.cut[2].from, spec::kCoordinator);
    EXPECT_EQ(figures.cut[3].kind, CutKind::link);
    EXPECT_EQ(figures.cut[3].from, 7);
    EXPECT_EQ(figures.cut[3].to, 9);
    EXPECT_EQ(figures.cut[4].from, spec::kCoordinator);
    EXPECT_EQ(figures.cut[5].kind, CutKind::trunk);
    EXPECT_EQ(figures.cut[5].to_region, "there");
}

}  // namespace
}  // namespace helix::node::plan_figures_test
