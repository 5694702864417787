#include "view/plan/plan_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "paper_data.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"
#include "spec/text_file.h"

namespace helix::view::plan_picture_test {
namespace {

using plan::cluster_of;
using plan::kGigabit;
using plan::link_all;
using plan::machine;
using plan::small_model;

const std::string kGolden = std::string(HELIX_SOURCE_DIR) + "/tests/golden/plan_picture_";

std::size_t columns(const std::string& line) {
    return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

void expect_at_most_100_columns(const std::string& picture) {
    std::istringstream lines(picture);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 100U) << line;
}

// Compares with the stored picture; HELIX_UPDATE_GOLDEN=1 rewrites it.
void expect_golden(const std::string& name, const std::string& picture) {
    const std::string path = kGolden + name + ".txt";
    if (std::getenv("HELIX_UPDATE_GOLDEN") != nullptr) {
        ASSERT_TRUE(spec::write_text_file(path, picture).ok());
    }
    const auto stored = spec::read_text_file(path);
    ASSERT_TRUE(stored.ok()) << stored.error().message << "; the picture is\n" << picture;
    EXPECT_EQ(picture, *stored) << "HELIX_UPDATE_GOLDEN=1 rewrites " << path;
    expect_at_most_100_columns(picture);
}

spec::ClusterSpec three_machines() {
    spec::ClusterSpec cluster =
        cluster_of({machine("laptop", 6, 4e-4), machine("workstation", 20, 1e-4),
                    machine("old-server", 10, 2e-4)});
    cluster.name = "home";
    return cluster;
}

TEST(PlanPicture, ThreeMachines) {
    const auto cluster = three_machines();
    const auto model = small_model(22);
    const auto report = plan::plan(cluster, model, {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    expect_golden("three", draw_plan(cluster, model, *report, {}));
}

TEST(PlanPicture, ColoursChangeNothingButTheColours) {
    const auto cluster = three_machines();
    const auto model = small_model(22);
    const auto report = plan::plan(cluster, model, {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    std::string coloured = draw_plan(cluster, model, *report, {.colours = true, .flows = true});
    ASSERT_NE(coloured.find("\x1b["), std::string::npos);
    for (std::size_t at = 0; (at = coloured.find("\x1b[", at)) != std::string::npos;) {
        coloured.erase(at, coloured.find('m', at) - at + 1);
    }
    EXPECT_EQ(coloured, draw_plan(cluster, model, *report, {}));
}

TEST(PlanPicture, ManyMachinesWithLongNamesAndIdleOnes) {
    spec::ClusterSpec cluster{.name = "hall", .nodes = {}, .links = {}};
    for (int i = 0; i < 42; ++i) {
        const std::string name =
            i % 5 == 0 ? "très-long-machine-name-" + std::to_string(i) : "n" + std::to_string(i);
        cluster.nodes.push_back(machine(name, 3 + i % 7, 1e-5 * (1 + i % 3)));
    }
    link_all(cluster, kGigabit, 0.001);
    spec::ModelSpec model = small_model(80);
    model.activation_bytes_per_token = 16384;
    plan::PlanOptions options;
    options.method =
        plan::Method::replicated;  // no search: the picture must not hang on rounding in exp()
    const auto report = plan::plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    expect_golden("many", draw_plan(cluster, model, *report, {}));
}

TEST(PlanPicture, APlacementThatCarriesNothingIsStillDrawn) {
    auto cluster = three_machines();
    const auto model = small_model(22);
    cluster.links.clear();
    plan::PlanOptions options;
    options.method = plan::Method::manual;
    options.manual.layers = {{0, 4}, {4, 18}, {18, 22}};
    const auto report = plan::plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->max_flow_tokens_per_s, 0);
    expect_golden("broken", draw_plan(cluster, model, *report, {}));
}

TEST(PlanPicture, LessThanOneRequestAtATimeIsNotNone) {
    const auto cluster = cluster_of({machine("only", 40, 1e-4)});
    auto report = plan::plan(cluster, small_model(32), {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    report->prediction.emplace();
    report->prediction->resident = 0.34;
    const std::string few = draw_plan(cluster, small_model(32), *report, {});
    EXPECT_NE(few.find("0.34 requests at a time"), std::string::npos) << few;
    report->prediction->resident = 57.9;
    const std::string many = draw_plan(cluster, small_model(32), *report, {});
    EXPECT_NE(many.find("; 57 requests at a time"), std::string::npos) << many;
}

TEST(PlanPicture, PublishedClusterFitsTheTerminal) {
    const std::string data = kPaperData;
    const auto cluster = spec::read_cluster_file(data + "/clusters/highhet42.json");
    const auto tables = spec::ProfileTables::read(data + "/profiles", "llama2-70b");
    const auto throughput =
        spec::read_node_throughput(data + "/profiles", "llama2-70b", "highhet42");
    ASSERT_TRUE(cluster.ok() && tables.ok() && throughput.ok());
    const auto capacities = plan::capacity_from_tables(*cluster, *tables, *throughput);
    ASSERT_TRUE(capacities.ok());
    plan::PlanOptions options;
    options.capacities = &*capacities;
    options.iterations = 2000;
    const auto report = plan::plan(*cluster, tables->model(), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const std::string picture = draw_plan(*cluster, tables->model(), *report, {});
    expect_at_most_100_columns(picture);
    if (std::getenv("HELIX_SHOW_PICTURE") != nullptr) std::fputs(picture.c_str(), stdout);
}

}  // namespace
}  // namespace helix::view::plan_picture_test
