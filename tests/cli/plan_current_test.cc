// `helix plan --current` plans near the placement in force, also for machines with roles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"

namespace helix::cli::plan_current_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// ROLE stands for the role of the first machine of each pair.
constexpr const char* kCluster = R"(name = "four"
[[machines]]
name = "p"
type = "A100-40"
count = 2
role = "ROLE"
[[machines]]
name = "d"
type = "A100-40"
count = 2
[links]
default = {bandwidth = "10 Gbit/s", latency = "1 ms"}
)";

class PlanCurrent : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::path(::testing::TempDir()) / ("helix-plan-" + std::to_string(::getpid()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string cluster(const std::string& role) const {
        std::string text = kCluster;
        text.replace(text.find("ROLE"), 4, role);
        const std::string path = (folder_ / (role + ".toml")).string();
        std::ofstream(path) << text;
        return path;
    }
    // A placement file with these layers by name.
    std::string placement(const json& layers) const {
        json file = {{"schema", "helix-layout-1"}, {"num_layers", 32}, {"layers", layers}};
        const std::string path = (folder_ / "current.json").string();
        std::ofstream(path) << file.dump();
        return path;
    }
    struct Said {
        int code = 0;
        std::string out;
        std::string err;
    };
    Said plan(const std::string& cluster, const std::string& current,
              const std::vector<std::string>& more) const {
        std::vector<std::string> words = {"helix",     "plan",        cluster, "--model",
                                          "llama3-8b", "--current",   current, "--budget",
                                          "1s",        "--objective", "flow"};
        words.insert(words.end(), more.begin(), more.end());
        std::vector<const char*> argv;
        for (const std::string& word : words) argv.push_back(word.c_str());
        ::testing::internal::CaptureStderr();
        ::testing::internal::CaptureStdout();
        Said said;
        said.code = run(static_cast<int>(argv.size()), argv.data());
        said.out = ::testing::internal::GetCapturedStdout();
        said.err = ::testing::internal::GetCapturedStderr();
        return said;
    }

    fs::path folder_;
};

const json kHalves = {{"0", {0, 16}}, {"1", {16, 32}}, {"2", {0, 16}}, {"3", {16, 32}}};

TEST_F(PlanCurrent, GroupsWithRolesAreReplannedApartAndTheirMovesCounted) {
    const Said said = plan(cluster("prefill"), placement(kHalves), {"--json", "--horizon", "24h"});
    ASSERT_EQ(said.code, 0) << said.err;
    const json answer = json::parse(said.out);
    EXPECT_TRUE(answer.contains("moved_bytes"));
    EXPECT_GT(answer["flow_without_moves"].get<double>(), 0);
    EXPECT_FALSE(answer.contains("warnings")) << answer["warnings"];
    EXPECT_THAT(answer["notes"].dump(), HasSubstr("through the machines for prompts"));
}

TEST_F(PlanCurrent, InWordsEachGroupHasItsFlow) {
    const Said said = plan(cluster("prefill"), placement(kHalves), {"--horizon", "1s"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("tokens/s through the machines for prompts, "));
    EXPECT_THAT(said.out, HasSubstr("nothing moves")) << "a second is too short to make up for it";
}

TEST_F(PlanCurrent, AGroupThatLosesAMachineLoadsWhatItHeld) {
    const Said said = plan(cluster("prefill"), placement(kHalves), {"--json", "--remove", "d-0"});
    ASSERT_EQ(said.code, 0) << said.err;
    const json answer = json::parse(said.out);
    EXPECT_GT(answer["moved_bytes"].get<double>(), 1e9) << "half of the model";
}

TEST_F(PlanCurrent, WithoutRolesAllArePlannedTogether) {
    const Said said = plan(cluster("both"), placement(kHalves), {"--horizon", "1s"});
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("without moving anything: "));
    EXPECT_THAT(said.out, ::testing::Not(HasSubstr("for prompts")));
}

}  // namespace
}  // namespace helix::cli::plan_current_test
