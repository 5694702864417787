#include "view/status/cluster_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "view/draw/terminal.h"

namespace helix::view::cluster_text_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ShownCluster two_machines() {
    ShownCluster cluster;
    cluster.server = "http://hall:8080";
    cluster.model = "llama";
    cluster.layers = 10;
    cluster.serving = true;
    cluster.running = 2;
    cluster.waiting = 1;
    cluster.finished = 40;
    cluster.tokens_per_s = 123.4;
    cluster.plan = {1000, 0.05, "den (layers 5-9)"};
    ShownWorker worker;
    worker.name = "hall";
    worker.state = "serving";
    worker.end_layer = 5;
    worker.kv_pages = 200;
    worker.kv_pages_used = 100;
    worker.requests = 2;
    worker.tokens_per_s = 123.4;
    worker.batch_rows = 2;
    worker.busy = 0.5;
    cluster.workers.push_back(worker);
    worker.name = "den";
    worker.state = "loading";
    worker.first_layer = 5;
    worker.end_layer = 10;
    worker.slowdown = 2.04;
    worker.busy.reset();
    cluster.workers.push_back(worker);
    return cluster;
}

TEST(ClusterText, SaysWhoComputesWhat) {
    EXPECT_EQ(
        cluster_text(two_machines(), false),
        "llama at http://hall:8080: 10 layers, 2 machines, serving\n"
        "requests   2 running, 1 waiting, 40 finished, 0 failed\n"
        "tokens/s   123.4 now; 1,000 planned, 5.0\u00a0% from the most that could be\n"
        "           limited by den (layers 5-9)\n"
        "\n"
        "MACHINE            STATE     LAYERS                       KV MEMORY      REQ  BATCH "
        "TOKENS/S  BUSY\n"
        "hall               serving   ██████████·········· 0-4     ████···· 50 %    2      2    "
        "123.4  50 %\n"
        "den                loading   ··········██████████ 5-9     ████···· 50 %    2      2    "
        "123.4     -\n"
        "  den computes 2.0 times slower than usual\n");
}

TEST(ClusterText, ListsRequestsWithTheirMachines) {
    ShownCluster cluster = two_machines();
    cluster.requests.push_back({"cmpl-1", "running", {"hall", "den"}, 12, 34, 1, 0.25, 9.5});
    cluster.requests.push_back({"cmpl-0", "queued", {}, 7, 0, 0, {}, {}});
    const std::string text = cluster_text(cluster, false);
    EXPECT_THAT(text,
                HasSubstr("\ncmpl-1                     running       12      34   250\u00a0ms"));
    EXPECT_THAT(text, HasSubstr("     1  hall > den\n"));
    EXPECT_THAT(text, HasSubstr("\ncmpl-0                     queued         7       0        -"));
}

TEST(ClusterText, LeavesOutWhatDoesNotFit) {
    ShownCluster cluster = two_machines();
    cluster.requests.resize(50);
    for (std::size_t lines = 1; lines < 70; ++lines) {
        const std::string text = cluster_text(cluster, false, lines);
        const auto shown = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        EXPECT_EQ(shown, std::min<std::size_t>(lines, 61));
        EXPECT_EQ(text.find("lines more") != std::string::npos, lines < 61) << lines;
    }
}

// Names come from whoever joins.
TEST(ClusterText, HasNoOrdersForTheTerminalFromNames) {
    ShownCluster cluster = two_machines();
    const std::string evil = "a\x1b[2Jb\nc\r" + std::string(200, 'x');
    cluster.model = cluster.server = cluster.plan->limited_by = evil;
    for (ShownWorker& worker : cluster.workers) worker.name = worker.state = evil;
    cluster.requests.push_back({evil, evil, {evil, evil}, 1, 1, 0, {}, {}});
    const std::string text = cluster_text(cluster, false);
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
        EXPECT_LE(text_width(line), 120U) << line;
    }
    EXPECT_EQ(number, 12);
}

}  // namespace
}  // namespace helix::view::cluster_text_test
