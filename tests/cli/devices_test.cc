// helix devices, and --device: what there is, and what is said of what there is not.

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/backend_option.h"
#include "cli/command.h"

namespace helix::cli::devices_test {
namespace {

std::string output_of(std::vector<const char*> words) {
    words.insert(words.begin(), "helix");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run(static_cast<int>(words.size()), words.data()), 0);
    return ::testing::internal::GetCapturedStdout();
}

BackendArguments arguments_of(const std::string& backend, const std::string& device) {
    BackendArguments arguments;
    arguments.backend = backend;
    arguments.device = device;
    return arguments;
}

base::Result<BackendChoice> choice_of(const std::string& backend, const std::string& device) {
    return choose_backend(arguments_of(backend, device));
}

std::string error_of(const std::string& backend, const std::string& device) {
    node::WorkerOptions options;
    const base::Status filled = fill_backend(arguments_of(backend, device), options);
    return filled.ok() ? "" : filled.error().message;
}

// While it lives the Vulkan loader finds no drivers.
class NoDrivers {
  public:
    NoDrivers() {
        for (Kept& kept : kept_) {
            const char* value = std::getenv(kept.name);
            kept.set = value != nullptr;
            if (kept.set) kept.value = value;
            setenv(kept.name, "/nonexistent", 1);
        }
    }
    ~NoDrivers() {
        for (const Kept& kept : kept_) {
            if (kept.set) {
                setenv(kept.name, kept.value.c_str(), 1);
            } else {
                unsetenv(kept.name);
            }
        }
    }
    NoDrivers(const NoDrivers&) = delete;
    NoDrivers& operator=(const NoDrivers&) = delete;

  private:
    struct Kept {
        const char* name;
        bool set = false;
        std::string value = {};
    };
    Kept kept_[2] = {{"VK_DRIVER_FILES"}, {"VK_ICD_FILENAMES"}};
};

TEST(Devices, TheCpuIsFirstAndEveryVulkanDeviceIsProvenOrRefused) {
    const auto json = nlohmann::json::parse(output_of({"devices", "--json"}));
    const std::string text = output_of({"devices"});
    const auto& devices = json["devices"];
    ASSERT_FALSE(devices.empty());
    EXPECT_EQ(devices[0]["name"], "cpu");
    EXPECT_GT(devices[0]["cores"], 0);
    EXPECT_GT(devices[0]["memory_bytes"], 0);
    EXPECT_NE(text.find("\ncpu "), std::string::npos) << text;
    EXPECT_EQ(json.contains("no_vulkan"), devices.size() == 1);
    for (std::size_t i = 1; i < devices.size(); ++i) {
        const auto& device = devices[i];
        EXPECT_EQ(device["name"], "vulkan:" + std::to_string(i - 1));
        EXPECT_NE(text.find("\n" + device["name"].get<std::string>() + " "), std::string::npos);
        EXPECT_NE(text.find(device["device"].get<std::string>()), std::string::npos);
        EXPECT_NE(text.find("UUID " + device["uuid"].get<std::string>()), std::string::npos);
        if (device.contains("refused")) {
            EXPECT_NE(text.find("refused: " + device["refused"].get<std::string>()),
                      std::string::npos);
        } else {
            EXPECT_NE(text.find("fma " + device["fma"].get<std::string>() + ", subnormals "),
                      std::string::npos);
            EXPECT_TRUE(device["keeps_subnormals"].is_boolean());
            EXPECT_NE(text.find("integer dot product " + device["integer_dot"].get<std::string>()),
                      std::string::npos);
        }
    }
}

TEST(Devices, WithoutADriverTheCpuIsListedAndOneLineSaysSo) {
    const NoDrivers none;
    const auto json = nlohmann::json::parse(output_of({"devices", "--json"}));
    EXPECT_EQ(json["devices"].size(), 1U);
    const std::string why = json["no_vulkan"];
    EXPECT_EQ(why.substr(0, 27), "this machine has no Vulkan ");
    const std::string text = output_of({"devices"});
    const std::string line = "\nNo Vulkan devices: " + why + "\n";
    ASSERT_GT(text.size(), line.size());
    EXPECT_EQ(text.substr(text.size() - line.size()), line);
    EXPECT_EQ(text.find("vulkan:"), std::string::npos);
    EXPECT_EQ(error_of("", "vulkan:0"), "--device vulkan:0: " + why + "; there is --device cpu");
    EXPECT_EQ(error_of("vulkan", ""), "--backend vulkan: " + why + "; there is --device cpu");
    EXPECT_EQ(choice_of("", "auto")->backend, "cpu");
}

TEST(DeviceOption, ImpliesTheBackend) {
    EXPECT_EQ(choice_of("", "")->backend, "cpu");
    EXPECT_EQ(choice_of("modelled", "")->backend, "modelled");
    EXPECT_EQ(choice_of("", "cpu")->backend, "cpu");
    EXPECT_EQ(choice_of("cpu", "cpu")->backend, "cpu");
    const auto second = choice_of("vulkan", "vulkan:1");
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->backend, "vulkan");
    EXPECT_EQ(second->device, "1");
    EXPECT_EQ(choice_of("", "vulkan:6D657361-3232-2E33-2E36-000000000000")->device,
              "6d65736132322e332e36000000000000");
}

TEST(DeviceOption, WhatContradictsOrIsNotUnderstoodIsAnError) {
    EXPECT_EQ(error_of("cpu", "vulkan:0"),
              "--device vulkan:0 contradicts --backend cpu: --device alone is enough");
    EXPECT_EQ(error_of("modelled", "cpu"),
              "--device cpu contradicts --backend modelled: --device alone is enough");
    EXPECT_EQ(error_of("vulkan", "auto"),
              "--device auto contradicts --backend vulkan: --device alone is enough");
    for (const std::string bad :
         {"gpu", "vulkan", "vulkan:", "0", "vulkan:0+", "vulkan:0+1", "cpu+vulkan:0"}) {
        EXPECT_EQ(error_of("", bad),
                  "--device: '" + bad +
                      "' is none of cpu, auto, vulkan:N, vulkan:UUID and several with + between "
                      "them; 'helix devices' lists what there is");
    }
}

TEST(DeviceOption, SeveralVulkanDevicesAreRanksOfOneWorker) {
    const auto choice =
        choice_of("", "vulkan:1+vulkan:0F0E0D0C-0B0A-0908-0706-050403020100+vulkan:2");
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    EXPECT_EQ(choice->backend, "vulkan");
    EXPECT_EQ(choice->device, "1+0f0e0d0c0b0a09080706050403020100+2");
}

TEST(DeviceOption, ADeviceThatIsNotThereIsAnErrorThatNamesThoseThatAre) {
    const auto json = nlohmann::json::parse(output_of({"devices", "--json"}));
    if (json.contains("no_vulkan")) GTEST_SKIP() << json["no_vulkan"];
    for (const std::string bad : {"99", "x"}) {
        const std::string error = error_of("", "vulkan:" + bad);
        EXPECT_EQ(error.find("--device: no Vulkan device '" + bad + "'; there are: 0 ("), 0U)
            << error;
        const std::string name = json["devices"][1]["device"];
        EXPECT_NE(error.find(name), std::string::npos) << error;
    }
}

}  // namespace
}  // namespace helix::cli::devices_test
