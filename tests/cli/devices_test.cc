// helix devices, and --device: what there is, and what is said of what there is not.

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/backend_option.h"
#include "cli/command.h"
#include "node/worker_server.h"

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

using Choices = std::vector<BackendChoice>;

base::Result<Choices> choices_of(const std::string& backend, const std::string& device) {
    return choose_backends(arguments_of(backend, device));
}

base::Result<BackendChoice> choice_of(const std::string& backend, const std::string& device) {
    return choose_backend(arguments_of(backend, device));
}

using Workers = base::Result<std::vector<node::WorkerOptions>>;

std::string refused(const Workers& made) {
    return made.ok() ? "" : made.error().message;
}

std::string error_of(const std::string& backend, const std::string& device) {
    return refused(make_workers(arguments_of(backend, device), {}));
}

std::string names_of(const Choices& choices) {
    std::string names;
    for (const BackendChoice& one : choices) names += (names.empty() ? "" : ", ") + one.device();
    return names;
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
            EXPECT_TRUE(device["flushes_subnormals"].is_boolean());
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
    EXPECT_EQ(choice_of("", "all")->backend, "cpu");
    EXPECT_EQ(error_of("", "vulkan:0,cpu"),
              "--device vulkan:0: " + why + "; there is --device cpu");
}

TEST(DeviceOption, ImpliesTheBackend) {
    EXPECT_EQ(choice_of("", "")->backend, "cpu");
    EXPECT_EQ(choice_of("modelled", "")->backend, "modelled");
    EXPECT_EQ(choice_of("", "cpu")->backend, "cpu");
    EXPECT_EQ(choice_of("cpu", "cpu")->backend, "cpu");
    const auto second = choice_of("vulkan", "vulkan:1");
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->backend, "vulkan");
    EXPECT_EQ(second->device(), "vulkan:1");
    EXPECT_EQ(choice_of("", "vulkan:6D657361-3232-2E33-2E36-000000000000")->device(),
              "vulkan:6d65736132322e332e36000000000000");
}

TEST(DeviceOption, WhatContradictsOrIsNotUnderstoodIsAnError) {
    EXPECT_EQ(error_of("cpu", "vulkan:0"),
              "--device vulkan:0 contradicts --backend cpu: --device alone is enough");
    EXPECT_EQ(error_of("modelled", "cpu"),
              "--device cpu contradicts --backend modelled: --device alone is enough");
    EXPECT_EQ(error_of("vulkan", "auto"),
              "--device auto contradicts --backend vulkan: --device alone is enough");
    EXPECT_EQ(error_of("cpu", "all"),
              "--device all contradicts --backend cpu: --device alone is enough");
    EXPECT_EQ(error_of("vulkan", "vulkan:0,cpu"),
              "--device vulkan:0,cpu contradicts --backend vulkan: --device alone is enough");
    for (const std::string bad :
         {"gpu", "vulkan", "vulkan:", "0", "vulkan:0+", "vulkan:0+1", "cpu+vulkan:0"}) {
        const std::string error =
            "--device: '" + bad +
            "' is none of cpu, auto, all, vulkan:N, vulkan:UUID and several with + or , between "
            "them; 'helix devices' lists what there is";
        EXPECT_EQ(error_of("", bad), error);
        EXPECT_EQ(error_of("", "cpu," + bad), error);
    }
    for (const std::string alone : {"auto", "all", ""})
        EXPECT_EQ(error_of("", "cpu," + alone).find("--device: '" + alone + "' is none of "), 0U);
    EXPECT_EQ(error_of("", "cpu,vulkan:0,cpu"), "--device: cpu is named twice");
}

TEST(DeviceOption, SeveralVulkanDevicesAreRanksOfOneWorker) {
    const auto choice =
        choice_of("", "vulkan:1+vulkan:0F0E0D0C-0B0A-0908-0706-050403020100+vulkan:2");
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    EXPECT_EQ(choice->backend, "vulkan");
    EXPECT_EQ(choice->devices,
              (std::vector<std::string>{"1", "0f0e0d0c0b0a09080706050403020100", "2"}));
}

TEST(DeviceOption, AListIsAWorkerForEachAndAllTakesNoSoftware) {
    EXPECT_EQ(names_of(*choices_of("", "vulkan:1,cpu")), "vulkan:1, cpu");
    EXPECT_EQ(names_of(*choices_of("", "cpu,vulkan:0+vulkan:1,vulkan:2")),
              "cpu, vulkan:0+vulkan:1, vulkan:2");
    EXPECT_EQ(choice_of("", "vulkan:1,cpu").error().message,
              "--device: vulkan:1,cpu are 2 devices; name one of them");
    std::string right;
    const auto json = nlohmann::json::parse(output_of({"devices", "--json"}));
    for (const auto& device : json["devices"]) {
        if (device["name"] == "cpu" || device["type"] == "software" || device.contains("refused"))
            continue;
        right += device["name"].get<std::string>() + ", ";
    }
    EXPECT_EQ(names_of(*choices_of("", "all")), right + "cpu");
}

TEST(DeviceOption, MemoryIsAskedForByTheDevicesNames) {
    const Choices cpu{{}};
    const Choices two{{"vulkan", {"0"}}, {}};
    EXPECT_EQ(*asked_memory("", two), (std::vector<std::int64_t>{0, 0}));
    EXPECT_EQ(*asked_memory("2GB", cpu), std::vector<std::int64_t>{2'000'000'000});
    EXPECT_EQ(*asked_memory("cpu=2GB,vulkan:0=6GB", two),
              (std::vector<std::int64_t>{6'000'000'000, 2'000'000'000}));
    EXPECT_EQ(*asked_memory("cpu=2GB", two), (std::vector<std::int64_t>{0, 2'000'000'000}));
    EXPECT_EQ(asked_memory("2GB", two).error().message,
              "--memory: of several devices say whose it is, like vulkan:0=2GB, with , between "
              "them");
    for (const std::string bad : {"vulkan:1=2GB", "cpu=2GB,", "gpu=1GB", "cpu=2GB,vulkan:0"}) {
        EXPECT_NE(asked_memory(bad, two).error().message.find(
                      "is not the memory of one of the devices vulkan:0, cpu, like vulkan:0=6GB"),
                  std::string::npos);
    }
    EXPECT_EQ(asked_memory("cpu=2GB,cpu=3GB", two).error().message, "--memory: cpu is named twice");
    EXPECT_EQ(asked_memory("cpu=lots", two).error().message.find("--memory: "), 0U);
}

TEST(DeviceOption, MoreMemoryThanIsFreeIsRefused) {
    BackendArguments arguments = arguments_of("", "cpu");
    arguments.memory = "900TB";
    const std::string error = refused(make_workers(arguments, {}));
    EXPECT_EQ(error.find("--memory: cpu is to have 900 TB, of which "), 0U) << error;
}

// A device of software can be named wherever `all` takes others, so this is what `all` does.
TEST(DeviceOption, SeveralDevicesAreWorkersWithNamesMemoryAndThreadsOfTheirOwn) {
    const auto json = nlohmann::json::parse(output_of({"devices", "--json"}));
    if (json.contains("no_vulkan")) GTEST_SKIP() << json["no_vulkan"];
    BackendArguments arguments = arguments_of("", "vulkan:0,cpu");
    arguments.threads = 8;
    arguments.tp = 2;
    arguments.cpus = "0";
    arguments.memory = "vulkan:0=64MB";
    node::WorkerOptions common;
    common.name = "den";
    const Workers made = make_workers(arguments, common);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_EQ(made->size(), 2U);
    const node::WorkerOptions& gpu = (*made)[0];
    const node::WorkerOptions& cpu = (*made)[1];
    EXPECT_EQ(gpu.name, "den-vulkan0");
    EXPECT_EQ(cpu.name, "den-cpu");
    EXPECT_EQ(gpu.backend->name(), "vulkan");
    EXPECT_EQ(cpu.backend->name(), "cpu");
    EXPECT_EQ(cpu.backend->ranks(), 2);
    EXPECT_EQ(gpu.memory_bytes, 64'000'000);
    EXPECT_GT(cpu.memory_bytes, 0);
    EXPECT_EQ(gpu.threads, 2);
    EXPECT_EQ(cpu.threads, 6);
    EXPECT_EQ(gpu.backend->processors().empty(), json["devices"][1]["type"] == "software");
    EXPECT_NE((*make_workers(arguments, {}))[0].name, (*make_workers(arguments, {}))[1].name);

    arguments.memory = "vulkan:0=900TB";
    EXPECT_EQ(refused(make_workers(arguments, common))
                  .find("--memory: vulkan:0 is to have 900 TB, of which "),
              0U);
    arguments.memory = "2GB";
    EXPECT_NE(refused(make_workers(arguments, common)), "");
    EXPECT_NE(error_of("", "cpu,vulkan:99").find("no Vulkan device '99'; there are: 0 ("),
              std::string::npos);
}

TEST(DeviceOption, SeveralDevicesNeedAKeyForSeveralNames) {
    const net::WorkerKey one{"den", {}, ""};
    const auto refused_name = node::name_of_several("den", one, "cpu");
    ASSERT_FALSE(refused_name.ok());
    EXPECT_NE(refused_name.error().message.find("helix key new --worker 'den-*'"),
              std::string::npos);
    const net::WorkerKey several{"den-*", {}, ""};
    EXPECT_EQ(*node::name_of_several("den-a", several, "cpu"), "den-a-cpu");
    const std::string made = *node::name_of_several("", several, "vulkan0");
    EXPECT_TRUE(made.starts_with("den-") && made.ends_with("-vulkan0")) << made;
    EXPECT_FALSE(node::name_of_several(std::string(60, 'x'), {}, "vulkan0").ok());
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
