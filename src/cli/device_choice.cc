#include "cli/device_choice.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "base/version.h"
#include "cli/backend_option.h"

namespace helix::cli {
namespace {

std::string utc_now(const char* format) {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

}  // namespace

base::Result<std::vector<engine::NamedDevice>> chosen_devices(const DevicesArguments& a,
                                                              bool with_cpu) {
    std::vector<engine::NamedDevice> devices;
    if (!a.device.empty()) {
        BackendArguments arguments;
        arguments.device = a.device;
        TRY(const BackendChoice choice, choose_backend(arguments));
        if (choice.devices.size() > 1)
            return base::invalid("--device: '" + a.device + "': one device is tried at a time");
        if (choice.backend == "cpu") return std::vector{engine::cpu_device()};
        auto named = engine::vulkan_device(choice.devices[0]);
        if (!named.ok())
            return base::Error{named.error().code, "--device: " + named.error().message};
        return std::vector{std::move(*named)};
    }
    if (with_cpu) devices.push_back(engine::cpu_device());
    const engine::VulkanList list = engine::list_vulkan_devices();
    bool only_software = true;
    for (const auto& d : list.devices) only_software = only_software && d.software;
    for (const auto& d : list.devices) {
        if (d.software && !only_software) continue;
        TRY(auto named, engine::vulkan_device(std::to_string(d.index)));
        devices.push_back(std::move(named));
    }
    if (devices.empty())
        return base::Error{base::Errc::not_found,
                           "no Vulkan devices: " + list.none + "; there is --device cpu"};
    return devices;
}

base::Result<std::uint64_t> chosen_seed(const DevicesArguments& a) {
    if (a.seed.empty()) {
        const auto since = std::chrono::system_clock::now().time_since_epoch();
        // Short enough to be typed.
        return base::mix64(static_cast<std::uint64_t>(since.count())) % 1'000'000'000;
    }
    std::uint64_t seed = 0;
    const char* end = a.seed.data() + a.seed.size();
    const auto [stopped, error] = std::from_chars(a.seed.data(), end, seed);
    if (error != std::errc() || stopped != end)
        return base::invalid("--seed: '" + a.seed + "' is no number of 64 bits");
    return seed;
}

std::string date_now() {
    return utc_now("%Y-%m-%d");
}

nlohmann::ordered_json record_head(const char* kind, const engine::NamedDevice& device,
                                   std::uint64_t seed) {
    return {{"kind", kind},
            {"name", device.name},
            {"device", device.device},
            {"type", device.type},
            {"driver", device.driver},
            {"uuid", device.uuid},
            {"time", utc_now("%Y-%m-%dT%H:%M:%SZ")},
            {"helix", base::kVersion},
            {"seed", seed}};
}

std::string json_line(const nlohmann::ordered_json& json, int indent) {
    return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

base::Status write_record(const DevicesArguments& a, const nlohmann::ordered_json& record) {
    if (a.record.empty()) return base::Ok{};
    std::FILE* file = std::fopen(a.record.c_str(), "ae");
    bool written = file != nullptr;
    if (written) {
        written = std::fputs(json_line(record, -1).c_str(), file) >= 0;
        written = std::fclose(file) == 0 && written;
    }
    if (!written) return base::Error{base::Errc::io, "--record: cannot write to " + a.record};
    return base::Ok{};
}

}  // namespace helix::cli
