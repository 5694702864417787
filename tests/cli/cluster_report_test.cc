#include "cli/cluster_report.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace helix::cli::cluster_report_test {
namespace {

using Json = nlohmann::json;

const Json kBefore = Json::parse(R"({
  "time_s": 10, "model": "llama", "n_layers": 10, "serving": true, "running": 1,
  "workers": [{"id": 4, "incarnation": 1, "name": "den", "state": "serving", "layers": [0, 10],
               "kv_pages": 50, "kv_pages_used": 5, "rows": 100, "batches": 50, "busy_s": 3,
               "slowdown": 1.0}],
  "links": [{"from": -1, "to": 4, "rows": 100}, {"from": 4, "to": -1, "rows": 100}],
  "plan": {"max_flow_tokens_per_s": 90, "gap": 0.1, "limited_by": "den",
           "nodes": [{"worker": 4, "flow_tokens_per_s": 90}]}})");

Json later() {
    Json now = kBefore;
    now["time_s"] = 14;
    now["workers"][0]["rows"] = 300;
    now["workers"][0]["batches"] = 100;
    now["workers"][0]["busy_s"] = 5;
    now["links"][0]["rows"] = 180;
    now["requests"] = Json::parse(R"([{"id": "cmpl-1", "state": "running", "prompt_tokens": 3,
        "completion_tokens": 4, "ttft_s": 0.5, "tokens_per_s": null, "pipeline": [{"worker": 4},
        {"worker": 9}], "attempts": [{}, {}], "attempts_left_out": 3}])");
    return now;
}

TEST(ClusterReport, RatesAreBetweenTwoLooks) {
    const view::ShownCluster cluster = cluster_report("s", later(), kBefore);
    EXPECT_EQ(cluster.tokens_per_s, 20);
    ASSERT_EQ(cluster.workers.size(), 1U);
    EXPECT_EQ(cluster.workers[0].tokens_per_s, 50);
    EXPECT_EQ(cluster.workers[0].batch_rows, 4);
    EXPECT_EQ(cluster.workers[0].busy, 0.5);
    EXPECT_EQ(cluster.workers[0].planned_tokens_per_s, 90);
    EXPECT_EQ(cluster.workers[0].end_layer, 10);
    ASSERT_EQ(cluster.requests.size(), 1U);
    EXPECT_EQ(cluster.requests[0].workers, (std::vector<std::string>{"den", "?"}));
    EXPECT_EQ(cluster.requests[0].moves, 4);
    EXPECT_EQ(cluster.requests[0].ttft_s, 0.5);
    EXPECT_FALSE(cluster.requests[0].tokens_per_s);
}

TEST(ClusterReport, OneLookHasNoRates) {
    const view::ShownCluster cluster = cluster_report("s", later(), {});
    EXPECT_FALSE(cluster.tokens_per_s);
    EXPECT_FALSE(cluster.workers[0].tokens_per_s);
    EXPECT_EQ(cluster.plan->tokens_per_s, 90);
}

TEST(ClusterReport, AWorkerThatBeganAnewHasNoRates) {
    Json now = later();
    now["workers"][0]["incarnation"] = 2;
    EXPECT_FALSE(cluster_report("s", now, kBefore).workers[0].tokens_per_s);
}

// Any member may be missing or be something else.
TEST(ClusterReport, TakesWhateverAServerSays) {
    base::Random random(5);
    const std::vector<Json> odd{
        nullptr, -1, 1.5, "text", true, Json::array(), Json::object(), Json::array({1, "x"})};
    const auto changed = [&](Json value, const auto& self) -> Json {
        if (random.chance(0.1)) return odd[random.below(odd.size())];
        if (!value.is_structured()) return value;
        for (auto& element : value) element = self(element, self);
        return value;
    };
    for (int i = 0; i < 3000; ++i) {
        const auto cluster =
            cluster_report("s", changed(later(), changed), changed(kBefore, changed));
        EXPECT_FALSE(view::cluster_text(cluster, false).empty());
    }
}

}  // namespace
}  // namespace helix::cli::cluster_report_test
