// A batch, and a coordinator that is killed while it runs.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "base/random.h"
#include "cluster/batch_client.h"
#include "cluster/process.h"
#include "model/synth.h"

namespace helix::cluster::jobs_test {
namespace {

// Many more lines than the kills wait for, so that most of the batch lies behind the last kill.
constexpr int kLines = 160;

class BatchJobs : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    std::unique_ptr<Process> serve(const std::string& state) {
        return std::make_unique<Process>(
            std::vector<std::string>{"serve", "--model", folder_.file("tiny.gguf"), "--listen",
                                     "127.0.0.1:" + std::to_string(port_), "--no-worker",
                                     "--state-dir", folder_.file(state), "--batch-lines", "4"},
            folder_.file("serve.log"));
    }
    std::unique_ptr<Process> worker() {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", "a", "--memory", "64MB", "--threads", "1", "--speed",
                                     "0.05", "--cache", folder_.file("cache")},
            folder_.file("worker.log"));
    }
    std::string log() const {
        std::ifstream file(folder_.file("serve.log"));
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    Folder folder_;
    int port_ = free_port();
    const BatchClient client_{port_};
};

TEST_F(BatchJobs, ABatchOutlivesThreeKillsOfTheCoordinatorAndEachLineIsAnsweredOnce) {
    auto coordinator = serve("state");
    ASSERT_TRUE(client_.serves()) << log();
    // The batch is accepted, and nothing has run since there is no worker.
    const std::string id = client_.create(client_.upload(BatchClient::requests(kLines)));
    ASSERT_TRUE(client_.has_status(id, "in_progress", 60)) << log();
    coordinator->stop(SIGKILL);
    std::filesystem::copy(folder_.file("state"), folder_.file("undisturbed"),
                          std::filesystem::copy_options::recursive);

    const auto runs_to_the_end = [&](std::map<std::string, std::string>& answers) {
        ASSERT_TRUE(client_.has_status(id, "completed", 240)) << log();
        answers = client_.answers(id, kLines);
    };
    const auto one_worker = worker();
    coordinator = serve("undisturbed");
    std::map<std::string, std::string> expected;
    ASSERT_NO_FATAL_FAILURE(runs_to_the_end(expected));
    coordinator->stop(SIGKILL);

    constexpr std::uint64_t kSeed = 1;  // of the moments
    base::Random random(kSeed);
    int kills_on_the_way = 0;
    for (int kill = 1; kill <= 3; ++kill) {
        coordinator = serve("state");
        const std::int64_t enough = kill * 8 + random.between(0, 6);
        ASSERT_TRUE(client_.has_completed(id, enough, 120)) << log();
        std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 30'000)));
        if (client_.batch(id)["status"] == "in_progress") ++kills_on_the_way;
        coordinator->stop(SIGKILL);
    }
    // On a fast machine one kill may come too late, but not all three: most lines are left by then.
    EXPECT_GE(kills_on_the_way, 1);
    coordinator = serve("state");
    std::map<std::string, std::string> answers;
    ASSERT_NO_FATAL_FAILURE(runs_to_the_end(answers));
    EXPECT_EQ(answers, expected);
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << log();
}

}  // namespace
}  // namespace helix::cluster::jobs_test
