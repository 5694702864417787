#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paper_data.h"
#include "spec/csv_table.h"
#include "spec/measured_node.h"
#include "spec/profile_tables.h"

namespace helix::spec::cost_model_test {
namespace {

using testing::HasSubstr;

NodeSpec measured() {
    NodeSpec node;
    node.name = "m";
    node.decode_s_per_layer = 1e-3;
    node.decode_batch_s_per_layer = 2.4e-3;
    node.prefill_s_per_token_layer = 1e-4;
    return node;
}

TEST(MeasuredNode, GoesThroughItsMeasurements) {
    const MeasuredNode costs;
    const NodeSpec node = measured();
    EXPECT_EQ(costs.layer_s(node, 0, 0), 0);
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 1, 0), 1e-3);
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 8, 0), 2.4e-3);
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 15, 0), 3.8e-3);
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 0, 512), 512e-4);
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 0, 2), 1e-3);  // a short prompt costs a decode
    EXPECT_DOUBLE_EQ(costs.layer_s(node, 8, 100), 2.4e-3 + 100e-4);
}

TEST(MeasuredNode, ABatchIsNeverCheaperThanOneSequence) {
    NodeSpec node = measured();
    node.decode_batch_s_per_layer = 0.5e-3;  // noise
    EXPECT_DOUBLE_EQ(MeasuredNode().layer_s(node, 8, 0), 1e-3);
}

TEST(MeasuredNode, CheckNamesNodeAndField) {
    ClusterSpec cluster{.name = "c", .nodes = {measured(), measured()}, .links = {}};
    EXPECT_TRUE(check_measured(cluster).ok());
    cluster.nodes[1].name = "late";
    cluster.nodes[1].decode_batch_s_per_layer = 0;
    EXPECT_THAT(check_measured(cluster).error().message,
                HasSubstr("node late: decode_batch_s_per_layer"));
}

TEST(TimeCurve, StraightBetweenPointsAndBeyondTheLast) {
    const TimeCurve curve({0, 2, 10}, {0, 1, 5});
    EXPECT_DOUBLE_EQ(curve.at(0), 0);
    EXPECT_DOUBLE_EQ(curve.at(1), 0.5);
    EXPECT_DOUBLE_EQ(curve.at(2), 1);
    EXPECT_DOUBLE_EQ(curve.at(6), 3);
    EXPECT_DOUBLE_EQ(curve.at(20), 10);
    EXPECT_EQ(curve.measured_up_to(), 10);
}

TEST(CsvTable, ErrorsNameFileAndLine) {
    const auto good = CsvTable::parse("x,a,b\r\n1,2,3\n\n4,5,6\n", "t.csv", {"b", "x"});
    ASSERT_TRUE(good.ok());
    EXPECT_EQ(good->n_rows(), 2U);
    EXPECT_EQ(*good->number(1, 0), 6);
    EXPECT_EQ(*good->number(1, 1), 4);
    EXPECT_THAT(CsvTable::parse("", "t.csv", {"x"}).error().message, HasSubstr("t.csv: is empty"));
    EXPECT_THAT(CsvTable::parse("y\n", "t.csv", {"x"}).error().message,
                HasSubstr("t.csv:1: the header has no"));
    EXPECT_THAT(CsvTable::parse("x\n1\n1,2\n", "t.csv", {"x"}).error().message,
                HasSubstr("t.csv:3"));
    const auto bad = CsvTable::parse("x\n\n1e\n", "t.csv", {"x"});
    ASSERT_TRUE(bad.ok());
    EXPECT_THAT(bad->number(0, 0).error().message, HasSubstr("t.csv:3: column x"));
}

TEST(ProfileTables, ReadThePublishedTables) {
    const std::string directory = kPaperData + "/profiles";
    const auto tables = ProfileTables::read(directory, "llama2-70b");
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    EXPECT_EQ(tables->model().n_layers, 80);
    EXPECT_EQ(tables->model().activation_bytes_per_token, 16384);
    EXPECT_EQ(tables->machines().size(), 7U);
    EXPECT_EQ(tables->machines().at("A100").max_layers, 12);
    NodeSpec node;
    node.name = "n";
    node.type = "A100";
    EXPECT_DOUBLE_EQ(tables->layer_s(node, 2, 0), 1.4e-3);  // points of the files
    EXPECT_DOUBLE_EQ(tables->layer_s(node, 0, 250), 2.0e-3);
    EXPECT_DOUBLE_EQ(tables->layer_s(node, 2, 125), 1.4e-3 + 1.0e-3);
    ClusterSpec cluster{.name = "c", .nodes = {node}, .links = {}};
    EXPECT_TRUE(tables->check(cluster).ok());
    cluster.nodes[0].type = "abacus";
    EXPECT_THAT(tables->check(cluster).error().message, HasSubstr("\"abacus\""));
    EXPECT_THAT(ProfileTables::read(directory, "gpt").error().message, HasSubstr("has no \"gpt\""));
}

TEST(ProfileTables, NodeThroughputOfAMix) {
    const std::string directory = kPaperData + "/profiles";
    const auto throughput = read_node_throughput(directory, "llama2-70b", "single24");
    ASSERT_TRUE(throughput.ok()) << throughput.error().message;
    EXPECT_NEAR(throughput->at("A100")[12], 952.1, 0.05);
    EXPECT_NEAR(throughput->at("T4")[4], 757.9, 0.05);
    const auto unknown = read_node_throughput(directory, "llama2-70b", "mine");
    EXPECT_EQ(unknown.error().code, base::Errc::not_found);
    EXPECT_THAT(unknown.error().message, HasSubstr("single24"));
}

}  // namespace
}  // namespace helix::spec::cost_model_test
