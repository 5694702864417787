#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "engine/devices.h"
#include "spec/profile_tables.h"

namespace helix::cli::profile_test {
namespace {

int helix(const std::vector<std::string>& words, std::string& output) {
    std::vector<const char*> argv = {"helix"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    const int status = run(static_cast<int>(argv.size()), argv.data());
    output = ::testing::internal::GetCapturedStdout();
    return status;
}

TEST(Profile, TheDemoModelsTablesAreWhatOthersRead) {
    const std::string folder = ::testing::TempDir() + "helix-profile-test";
    std::filesystem::remove_all(folder);
    const std::string model = HELIX_SOURCE_DIR "/models/helix-demo.gguf";
    const auto profile = [&](const std::string& type, std::string& output) {
        return helix({"profile", "--model", model, "--output", folder, "--type", type, "--threads",
                      "1", "--memory", "1GB", "--context", "32", "--max-prompt", "64",
                      "--max-sequences", "4", "--budget", "300ms"},
                     output);
    };
    std::string output;
    ASSERT_EQ(profile("one", output), 0);
    EXPECT_NE(output.find("--profiles " + folder + " --profile helix-demo --type one"),
              std::string::npos)
        << output;
    ASSERT_EQ(profile("two", output), 0);
    const auto tables = spec::ProfileTables::read(folder, "helix-demo");
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    ASSERT_EQ(tables->machines().size(), 2U);
    const spec::ProfileTables::Machine& machine = tables->machines().at("one");
    EXPECT_EQ(tables->model().n_layers, 8);
    EXPECT_EQ(machine.max_layers, 8);
    // A layer has an eighth of 1 GB, and K and V of a token take some hundred bytes in it.
    EXPECT_GT(machine.held[8].kv_tokens_per_layer, 50'000);
    EXPECT_NEAR(machine.held[1].kv_tokens_per_layer, 8 * machine.held[8].kv_tokens_per_layer,
                0.05 * machine.held[1].kv_tokens_per_layer);
    EXPECT_GT(machine.decode_s.at(1), 0);
    EXPECT_GT(machine.prompt_s.at(64), machine.prompt_s.at(2));
    std::filesystem::remove_all(folder);
}

// The planner reads a GPU's tables as it reads those of a CPU.
TEST(Profile, AVulkanDeviceHasTablesOfItsOwn) {
    if (engine::list_vulkan_devices().devices.empty()) GTEST_SKIP() << "no Vulkan device";
    const std::string folder = ::testing::TempDir() + "helix-profile-vulkan-test";
    std::filesystem::remove_all(folder);
    std::string output;
    ASSERT_EQ(
        helix({"profile", "--model", HELIX_SOURCE_DIR "/models/helix-demo.gguf", "--output", folder,
               "--type", "card", "--device", "vulkan:0", "--memory", "100MB", "--context", "32",
               "--max-prompt", "64", "--max-sequences", "4", "--budget", "300ms"},
              output),
        0);
    EXPECT_NE(output.find("--profile helix-demo --type card"), std::string::npos) << output;
    const auto tables = spec::ProfileTables::read(folder, "helix-demo");
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    const spec::ProfileTables::Machine& machine = tables->machines().at("card");
    EXPECT_GT(machine.decode_s.at(1), 0);
    EXPECT_GT(machine.prompt_s.at(2), 0);  // more where compiling shaders leaves time for it
    EXPECT_GT(machine.held[8].kv_tokens_per_layer, 1000);
    std::filesystem::remove_all(folder);
}

TEST(Profile, BadOptionsAreNamed) {
    std::string output;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"profile", "--model", "nix.gguf", "--output", "x"}, output), 1);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("nix.gguf"), std::string::npos);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"profile", "--model", "x", "--output", "x", "--context", "1"}, output), 1);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("--context: 1: expected 2 to"),
              std::string::npos);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"profile", "--model", "x", "--output", "x", "--device", "gpu"}, output), 1);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("--device: 'gpu' is none of"),
              std::string::npos);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(helix({"profile", "--model", "x", "--output", "x", "--cpus", "1-"}, output), 1);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("--cpus: "), std::string::npos);
}

}  // namespace
}  // namespace helix::cli::profile_test
