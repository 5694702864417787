// helix devices --prove and --measure.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "cli/command.h"
#include "engine/devices.h"

namespace helix::cli::devices_tried_test {
namespace {

using Json = nlohmann::json;

struct Said {
    int status = 0;
    std::string output, error;
};

Said helix(std::vector<const char*> words) {
    words.insert(words.begin(), "helix");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Said said;
    said.status = run(static_cast<int>(words.size()), words.data());
    said.output = ::testing::internal::GetCapturedStdout();
    said.error = ::testing::internal::GetCapturedStderr();
    return said;
}

std::vector<Json> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
}

TEST(DevicesProve, SaysWhatWasComparedAndHowToDoItAgain) {
    const std::string record = ::testing::TempDir() + "helix-devices-prove.jsonl";
    std::remove(record.c_str());
    const Said said = helix({"devices", "--prove", "--quick", "--device", "cpu", "--seed", "7",
                             "--record", record.c_str()});
    EXPECT_EQ(said.status, 0) << said.error;
    EXPECT_EQ(said.output.find("cpu  "), 0U) << said.output;
    for (const char* line : {"\n  matmul q4_k ", "\n  attention q8 ", "\n  KV store f16 ",
                             "\n  model small q4_k, KV f16 ",
                             "`helix devices --prove --quick --seed 7`", "bit-equal to the CPU"})
        EXPECT_NE(said.output.find(line), std::string::npos) << line << said.output;
    const auto lines = lines_of(record);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0]["kind"], "proof");
    EXPECT_EQ(lines[0]["proven"], true);
    EXPECT_EQ(lines[0]["seed"], 7);
    EXPECT_EQ(lines[0]["checks"].size(), 49U);
    std::remove(record.c_str());
}

TEST(DevicesProve, WithoutANameTheVulkanDevicesOfThisMachine) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and the CPU is proven beside it";
    const auto list = engine::list_vulkan_devices();
    const Said said = helix({"devices", "--prove", "--quick", "--json"});
    if (list.devices.empty()) {
        EXPECT_EQ(said.status, 1);
        EXPECT_NE(said.error.find("no Vulkan devices: " + list.none + "; there is --device cpu"),
                  std::string::npos)
            << said.error;
        return;
    }
    EXPECT_EQ(said.status, 0) << said.error;
    const Json json = Json::parse(said.output);
    ASSERT_FALSE(json["devices"].empty());
    const Json& first = json["devices"][0];
    EXPECT_EQ(first["proven"], true);
    EXPECT_EQ(first["name"].get<std::string>().find("vulkan:"), 0U);
    EXPECT_FALSE(first["start_up"].get<std::string>().empty());
}

TEST(DevicesMeasure, HasEveryFigureOfEveryDevice) {
    const Said said = helix({"devices", "--measure", "--quick", "--json", "--like", "T4"});
    ASSERT_EQ(said.status, 0) << said.error;
    const Json json = Json::parse(said.output);
    ASSERT_FALSE(json["devices"].empty());
    EXPECT_EQ(json["devices"][0]["name"], "cpu");
    EXPECT_EQ(json["devices"].size() > 1, !engine::list_vulkan_devices().devices.empty());
    for (const Json& device : json["devices"]) {
        EXPECT_GT(device["copy"]["device"]["bytes_per_s"], 0);
        EXPECT_GT(device["copy"]["host_to_device"]["bytes_per_s"], 0);
        EXPECT_GT(device["copy"]["device_to_host"]["bytes_per_s"], 0);
        EXPECT_GT(device["decode"]["q8_0"]["bytes_per_s"], 0);
        EXPECT_GT(device["decode"]["q4_k"]["bytes_per_s"], 0);
        EXPECT_GT(device["prefill"]["q8_0"]["ops_per_s"], 0);
        EXPECT_EQ(device.contains("dot"), device["name"] != "cpu");
        if (device.contains("dot")) {
            EXPECT_GT(device["dot"]["ops_per_s"], 0);
        }
        EXPECT_DOUBLE_EQ(device["like"]["copy"].get<double>(),
                         device["copy"]["device"]["bytes_per_s"].get<double>() / 320e9);
        EXPECT_DOUBLE_EQ(device["like"]["prefill"].get<double>(),
                         device["prefill"]["q8_0"]["ops_per_s"].get<double>() / 130e12);
    }
}

TEST(DevicesMeasure, TheTextNamesUnits) {
    const Said said = helix({"devices", "--measure", "--quick", "--device", "cpu"});
    ASSERT_EQ(said.status, 0) << said.error;
    for (const char* line :
         {"\n  copy ", "\n  host to device ", "\n  device to host ", "\n  decode Q8_0 ",
          "\n  decode Q4_K ", "\n  prefill Q8_0 ", "TOP/s", "int8, 32 rows"})
        EXPECT_NE(said.output.find(line), std::string::npos) << line << said.output;
}

TEST(DevicesTried, BadOptionsAreNamed) {
    const struct {
        std::vector<const char*> words;
        const char* error;
    } cases[] = {
        {{"devices", "--quick"}, "--quick: goes with --prove or --measure"},
        {{"devices", "--device", "cpu"}, "--device: goes with --prove or --measure"},
        {{"devices", "--prove", "--full"}, "--full: goes with --measure"},
        {{"devices", "--prove", "--measure"}, "--measure: not at the same time as --prove"},
        {{"devices", "--prove", "--device", "gpu"}, "--device: 'gpu' is none of cpu"},
        {{"devices", "--prove", "--device", "vulkan:0+vulkan:0"}, "one device is tried at a time"},
        {{"devices", "--prove", "--seed", "x"}, "--seed: 'x' is no number"},
        {{"devices", "--measure", "--like", "nix"}, "--like: "},
        {{"devices", "--measure", "--budget", "2"}, "--budget: "},
        {{"devices", "--measure", "--quick", "--device", "cpu", "--record", "/nonexistent/x"},
         "--record: cannot write to /nonexistent/x"},
    };
    for (const auto& c : cases) {
        const Said said = helix(c.words);
        EXPECT_EQ(said.status, 1) << c.error;
        EXPECT_NE(said.error.find(c.error), std::string::npos) << said.error;
    }
}

}  // namespace
}  // namespace helix::cli::devices_tried_test
