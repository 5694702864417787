#include "sim/html_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "sim/fake_world.h"
#include "sim/recorder.h"

namespace helix::sim {
namespace {

Recording record(const FakeWorldConfig& config) {
    FakeWorld world(config, nullptr);
    RecorderOptions options;
    options.window_begin = {base::from_seconds(config.run_s * 0.1).ns};
    options.window_end = {base::from_seconds(config.run_s).ns};
    options.ttft_limit_s = 2;
    options.tpot_limit_s = 0.15;
    Recorder recorder(world.cluster(), world.placement(), config.n_layers, world.kv_capacity(),
                      options);
    world.watch(&recorder);
    world.run();
    return recorder.recording(world.now());
}

// HELIX_SHOW_REPORTS=DIR writes reports to look at.
TEST(HtmlReport, ShowsClustersOfAnySize) {
    const char* folder = std::getenv("HELIX_SHOW_REPORTS");
    if (folder == nullptr) GTEST_SKIP() << "HELIX_SHOW_REPORTS is not set";
    for (const std::int32_t nodes : {6, 42, 1000}) {
        FakeWorldConfig config;
        config.nodes = nodes;
        config.stages = nodes == 6 ? 2 : nodes == 42 ? 6 : 10;
        config.n_layers = nodes == 6 ? 32 : nodes == 42 ? 60 : 80;
        config.requests_per_s = nodes == 1000 ? 60 : 7;
        config.run_s = nodes == 1000 ? 60 : 300;
        config.most_running = nodes == 1000 ? 3000 : 60;
        const std::string page = html_report(
            record(config), {"fake" + std::to_string(nodes),
                             {{"Model", "llama2-70b"}, {"Scheduler", "helix"}, {"Seed", "1"}},
                             1234});
        std::ofstream(std::string(folder) + "/fake" + std::to_string(nodes) + ".html") << page;
    }
}

}  // namespace
}  // namespace helix::sim
