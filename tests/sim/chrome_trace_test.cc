#include "sim/report/chrome_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/effort.h"
#include "sim/fake_cluster.h"
#include "spec/text_file.h"

namespace helix::sim::chrome_trace_test {
namespace {

using Json = nlohmann::json;

base::TimePoint at(double s) {
    return {base::from_seconds(s).ns};
}

class ChromeTraceTest : public ::testing::Test {
  protected:
    void TearDown() override { std::filesystem::remove(path_); }

    std::unique_ptr<ChromeTrace> create(const spec::ClusterSpec& cluster,
                                        const spec::Placement& placement,
                                        const ChromeTraceOptions& options = {}) {
        auto trace = ChromeTrace::create(path_, cluster, placement, options);
        EXPECT_TRUE(trace.ok()) << trace.error().message;
        return std::move(trace).value();
    }
    Json finish(ChromeTrace& trace, base::TimePoint now) {
        const base::Status status = trace.finish(now);
        EXPECT_TRUE(status.ok()) << status.error().message;
        return Json::parse(spec::read_text_file(path_).value());
    }
    static std::vector<Json> of(const Json& file, const std::string& phase) {
        std::vector<Json> events;
        for (const Json& event : file["traceEvents"]) {
            if (event["ph"] == phase) events.push_back(event);
        }
        return events;
    }

    std::string path_ = testing::TempDir() + "helix_chrome_trace_" + std::to_string(getpid());
};

spec::ClusterSpec two_nodes() {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(2);
    cluster.nodes[0].name = "a \"quoted\"\n";
    cluster.nodes[1].name = "b";
    return cluster;
}

TEST_F(ChromeTraceTest, MachinesAreProcessesAndBatchesSlices) {
    const auto trace = create(two_nodes(), spec::Placement{{{0, 4}, {}}}, {.begin = at(1)});
    trace->node_computed({0, at(1.5), at(1.75), {0, 4}, 3, 20});
    trace->node_computed({0, at(0.5), at(0.75), {0, 4}, 3, 20});  // before the begin
    trace->link_carried({0, 1, at(2), at(2.5), 1000, base::from_ms(5)});
    trace->link_carried({0, 1, at(3), at(3.5), 1000, {}});
    trace->kv_used(0, at(2), 70);
    trace->kv_used(0, at(2.01), 80);  // too soon
    trace->kv_used(0, at(2.06), 90);
    trace->mark(at(4), "b killed");
    const Json file = finish(*trace, at(5));
    std::map<int, std::string> processes;
    std::vector<std::string> links;
    for (const Json& event : of(file, "M")) {
        if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
        if (event["name"] == "thread_name" && event["tid"] != 1) {
            links.push_back(event["args"]["name"]);
        }
    }
    EXPECT_EQ(processes,
              (std::map<int, std::string>{
                  {1, "coordinator"}, {2, "a \"quoted\"\n, layers 0-3"}, {3, "b, no layers"}}));
    EXPECT_EQ(links, std::vector<std::string>{"to b"});
    const auto slices = of(file, "X");
    ASSERT_EQ(slices.size(), 3U);
    EXPECT_EQ(slices[0]["pid"], 2);
    EXPECT_EQ(slices[0]["name"], "decode + prompt");
    EXPECT_EQ(slices[0]["ts"], 500000);
    EXPECT_EQ(slices[0]["dur"], 250000);
    EXPECT_EQ(slices[0]["args"], Json({{"decodes", 3}, {"prompt_tokens", 20}, {"layers", "0-3"}}));
    EXPECT_EQ(slices[1]["args"]["waited_ms"], 5);
    const auto counters = of(file, "C");
    ASSERT_EQ(counters.size(), 2U);
    EXPECT_EQ(counters[1]["args"]["used"], 90);
    EXPECT_EQ(of(file, "i")[0]["name"], "b killed");
    EXPECT_EQ(file["otherData"]["note"], "complete");
    EXPECT_EQ(file["otherData"]["left_out"], 0);
}

TEST_F(ChromeTraceTest, AFollowedRequestIsNestedSpansAndArrows) {
    const auto trace = create(two_nodes(), spec::Placement{{{0, 4}, {4, 8}}}, {.follow_every = 2});
    EXPECT_TRUE(trace->request_created(5, at(1), 100, 2));
    EXPECT_FALSE(trace->request_created(6, at(1), 100, 2));
    trace->request_admitted(5, at(2), {});
    trace->request_admitted(6, at(2), {});
    trace->request_computed({5, 0, at(2.1), at(2.2), {0, 2}, 100});
    trace->request_computed({5, 0, at(2.2), at(2.3), {2, 4}, 100});
    trace->request_computed({5, 1, at(2.4), at(2.5), {4, 8}, 100});
    trace->token(5, at(3));
    trace->request_preempted(5, at(4));
    trace->request_admitted(5, at(5), {});
    trace->token(5, at(6));
    trace->request_finished(5, at(6));
    trace->request_finished(6, at(6));
    const Json file = finish(*trace, at(7));
    std::string story;
    for (const Json& event : file["traceEvents"]) {
        if (event.value("cat", "") != "request") continue;
        EXPECT_EQ(event["id"], 5);
        const double ts = event["ts"];
        story += event["ph"].get<std::string>() + " " + event["name"].get<std::string>() + " " +
                 std::to_string(static_cast<int>(ts / 1e6)) + "\n";
    }
    EXPECT_EQ(story,
              "b request 5: 100 + 2 tokens 1\nb waiting 1\ne waiting 2\nb prompt 2\ne prompt 3\n"
              "b decoding 3\ne decoding 4\nb preempted 4\ne preempted 5\nb decoding again 5\n"
              "e decoding again 6\ne request 6\n");
    ASSERT_EQ(of(file, "s").size(), 1U);
    EXPECT_EQ(of(file, "s")[0]["pid"], 2);
    EXPECT_EQ(of(file, "s")[0]["ts"], 2100000);
    ASSERT_EQ(of(file, "f").size(), 1U);
    EXPECT_EQ(of(file, "f")[0]["pid"], 3);
    EXPECT_TRUE(of(file, "t").empty());
}

TEST_F(ChromeTraceTest, AWholeRunIsWellFormedAndArrowsMeetBatches) {
    FakeClusterConfig config;
    config.run_s = kSanitized ? 12 : 20;
    FakeCluster world(config, nullptr);
    const auto trace = create(world.cluster(), world.placement(), {.follow_every = 5});
    world.watch(trace.get());
    world.run();
    const Json file = finish(*trace, world.now());
    EXPECT_EQ(trace->left_out(), 0U);
    std::map<std::pair<int, int>, int> open;
    std::set<std::pair<int, double>> batches;
    for (const Json& event : file["traceEvents"]) {
        if (event["ph"] == "b") ++open[{event["id"], 0}];
        if (event["ph"] == "e") --open[{event["id"], 0}];
        if (event["ph"] == "X" && event["tid"] == 1) batches.emplace(event["pid"], event["ts"]);
    }
    EXPECT_GT(open.size(), 10U);
    for (const auto& [id, depth] : open) EXPECT_EQ(depth, 0);
    std::size_t arrows = 0;
    for (const Json& event : file["traceEvents"]) {
        if (event.value("cat", "") != "flow") continue;
        ++arrows;
        EXPECT_TRUE(batches.contains({event["pid"], event["ts"]})) << event;
    }
    EXPECT_GT(arrows, 100U);
    EXPECT_EQ(of(file, "s").size(), of(file, "f").size());
}

TEST_F(ChromeTraceTest, BeyondTheLimitEventsAreLeftOutAndTheFileSaysSo) {
    FakeClusterConfig config;
    config.run_s = 20;
    FakeCluster world(config, nullptr);
    const auto trace =
        create(world.cluster(), world.placement(), {.most_events = 1000, .follow_every = 1});
    world.watch(trace.get());
    world.run();
    const Json file = finish(*trace, world.now());
    EXPECT_GT(trace->left_out(), 1000U);
    EXPECT_EQ(file["otherData"]["events"], 1000);
    EXPECT_EQ(file["otherData"]["left_out"], trace->left_out());
    const std::string note = file["otherData"]["note"];
    EXPECT_NE(note.find("events were left out after the limit of 1000"), std::string::npos) << note;
    EXPECT_EQ(of(file, "i").back()["name"], note);
    EXPECT_EQ(of(file, "b").size(), of(file, "e").size());
    EXPECT_EQ(of(file, "s").size(), of(file, "f").size());
    EXPECT_LT(file["traceEvents"].size(), 2600U);  // closings and names come on top
}

TEST(ChromeTrace, APathThatCannotBeWrittenIsNamed) {
    const auto trace =
        ChromeTrace::create("/no/such/folder/t.json", two_nodes(), spec::Placement{{{}, {}}}, {});
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(trace.error().message,
              "/no/such/folder/t.json: cannot be created: No such file or directory");
}

}  // namespace
}  // namespace helix::sim::chrome_trace_test
