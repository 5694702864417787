// helix experiment, as a command.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "lab/experiments/experiments.h"
#include "own_folder.h"
#include "paper_data.h"

namespace helix::cli::experiment_command_test {
namespace {

namespace fs = std::filesystem;

const std::string kData = kPaperData;

class ExperimentCommandTest : public OwnFolder {};

int helix(std::vector<const char*> words) {
    words.insert(words.begin(), "helix");
    return run(static_cast<int>(words.size()), words.data());
}

TEST_F(ExperimentCommandTest, AllAreListed) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(helix({"experiment", "list"}), 0);
    const std::string listed = testing::internal::GetCapturedStdout();
    for (const lab::Experiment& experiment : lab::all_experiments()) {
        EXPECT_NE(listed.find(experiment.name), std::string::npos) << experiment.name;
    }
}

TEST_F(ExperimentCommandTest, AnUnknownNameIsAnErrorThatListsTheOthers) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"experiment", "singel-cluster", "--output", folder_.c_str()}), 1);
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_NE(
        message.find("'singel-cluster' is none of machines, lengths, single-cluster, distributed"),
        std::string::npos)
        << message;
    EXPECT_NE(message.find("auto-scaling, disaggregation, all, published, live, list"),
              std::string::npos)
        << message;
}

TEST_F(ExperimentCommandTest, DataThatIsNoDataIsAnErrorThatSaysWhatIsMissing) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(
        helix({"experiment", "placement", "--data", folder_.c_str(), "--output", folder_.c_str()}),
        1);
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find("has no folder clusters"), std::string::npos) << message;
}

TEST_F(ExperimentCommandTest, MadeUpDataNeedsAPlaceToBeWrittenTo) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"experiment", "placement", "--data", "made-up", "--json"}), 1);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("needs --output DIR"), std::string::npos);
}

TEST_F(ExperimentCommandTest, AProgramWhoseSolverFindsNothingFailsAndWritesNoPlan) {
    const std::string cluster = kData + "/clusters/ablation10.json";
    const std::string profiles = kData + "/profiles";
    const std::string output = folder_ + "/plan.json";
    testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"plan", cluster.c_str(), "--model", "llama1-30b", "--profiles",
                     profiles.c_str(), "--objective", "flow", "--no-partial", "--method", "milp",
                     "--start", "none", "--budget", "1ms", "--output", output.c_str()}),
              1);
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find("cbc found nothing that carries a token"), std::string::npos) << message;
    EXPECT_NE(message.find("time limit"), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(output));
    testing::internal::CaptureStdout();
    EXPECT_EQ(helix({"plan", cluster.c_str(), "--model", "llama1-30b", "--profiles",
                     profiles.c_str(), "--objective", "flow", "--no-partial", "--method", "milp",
                     "--budget", "1ms", "--output", output.c_str()}),
              0);
    const std::string shown = testing::internal::GetCapturedStdout();
    EXPECT_NE(shown.find("cbc found nothing better than its start"), std::string::npos) << shown;
    EXPECT_EQ(read(output).find("\"milp\""), std::string::npos) << "a rule found it, not milp";
}

}  // namespace
}  // namespace helix::cli::experiment_command_test
