// helix devices

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include <fmt/format.h>

#include "base/machine.h"
#include "cli/command.h"
#include "engine/devices.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

nlohmann::ordered_json device_json(const engine::VulkanDescription& d) {
    nlohmann::ordered_json json = {{"name", fmt::format("vulkan:{}", d.index)},
                                   {"type", d.type},
                                   {"device", d.name},
                                   {"driver", d.driver},
                                   {"uuid", d.uuid},
                                   {"memory_bytes", d.memory_bytes}};
    if (!d.refused.empty()) {
        json["refused"] = d.refused;
        return json;
    }
    json["fma"] = d.fused_fma ? "fused" : "emulated";
    json["keeps_subnormals"] = d.keeps_subnormals;
    json["integer_dot"] = engine::to_string(d.integer_dot);
    return json;
}

std::string devices_json(const base::Allowance& cpu, const engine::VulkanList& vulkan) {
    nlohmann::ordered_json json;
    json["devices"].push_back({{"name", "cpu"},
                               {"type", "CPU"},
                               {"cores", cpu.threads},
                               {"memory_bytes", cpu.memory_bytes}});
    for (const auto& d : vulkan.devices) json["devices"].push_back(device_json(d));
    if (!vulkan.none.empty()) json["no_vulkan"] = vulkan.none;
    // What drivers say of themselves need not be UTF-8.
    return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string row(const std::string& name, const std::string& type, std::int64_t bytes,
                const std::string& device) {
    return fmt::format("{:<10} {:<14} {:>8}  {}\n", name, type, spec::format_bytes(bytes), device);
}

std::string device_text(const engine::VulkanDescription& d) {
    std::string text = row(fmt::format("vulkan:{}", d.index), d.type, d.memory_bytes, d.name);
    const std::string indent(11, ' ');
    if (!d.driver.empty()) text += fmt::format("{}driver {}\n", indent, d.driver);
    if (!d.uuid.empty()) text += fmt::format("{}UUID {}\n", indent, d.uuid);
    if (!d.refused.empty()) return text + fmt::format("{}refused: {}\n", indent, d.refused);
    return text + fmt::format("{}fma {}, subnormals {}, integer dot product {}{}\n", indent,
                              d.fused_fma ? "fused" : "emulated",
                              d.keeps_subnormals ? "kept" : "lost",
                              engine::to_string(d.integer_dot),
                              d.integer_dot == engine::IntegerDot::wrong ? " and not used" : "");
}

std::string devices_text(const base::Allowance& cpu, const engine::VulkanList& vulkan) {
    std::string text =
        fmt::format("{:<10} {:<14} {:>8}  {}\n", "--device", "type", "memory", "device");
    text += row("cpu", "CPU", cpu.memory_bytes,
                fmt::format("{} {}; the memory is what is free", cpu.threads,
                            cpu.threads == 1 ? "core" : "cores"));
    for (const auto& d : vulkan.devices) text += device_text(d);
    if (!vulkan.none.empty()) text += "\nNo Vulkan devices: " + vulkan.none + "\n";
    return text;
}

base::Status show_devices(bool json) {
    const base::Allowance cpu = base::process_allowance();
    const engine::VulkanList vulkan = engine::list_vulkan_devices();
    std::fputs((json ? devices_json(cpu, vulkan) : devices_text(cpu, vulkan)).c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_devices(App& app) {
    CLI::App* devices = app.parser.add_subcommand(
        "devices", "What this machine can compute with, named as --device takes it");
    auto json = std::make_shared<bool>(false);
    devices->add_flag("--json", *json, "one JSON object");
    devices->footer("Examples:\n  helix devices\n  helix devices --json");
    devices->callback([&app, json] { app.action = [json] { return show_devices(*json); }; });
}

}  // namespace helix::cli
