// helix devices

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include <fmt/format.h>

#include "base/machine.h"
#include "cli/command.h"
#include "cli/device_choice.h"
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
    json["flushes_subnormals"] = d.flushes_subnormals;
    json["integer_dot"] = engine::to_string(d.integer_dot);
    json["matrix_cores"] = engine::to_string(d.matrix_cores);
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

std::string feature_text(engine::FeatureProof proof) {
    return std::string(engine::to_string(proof)) +
           (proof == engine::FeatureProof::wrong ? " and not used" : "");
}

std::string device_text(const engine::VulkanDescription& d) {
    std::string text = row(fmt::format("vulkan:{}", d.index), d.type, d.memory_bytes, d.name);
    const std::string indent(11, ' ');
    if (!d.driver.empty()) text += fmt::format("{}driver {}\n", indent, d.driver);
    if (!d.uuid.empty()) text += fmt::format("{}UUID {}\n", indent, d.uuid);
    if (!d.refused.empty()) return text + fmt::format("{}refused: {}\n", indent, d.refused);
    return text + fmt::format("{}fma {}, subnormals {}, integer dot product {}, matrix cores {}\n",
                              indent, d.fused_fma ? "fused" : "emulated",
                              d.flushes_subnormals ? "flushed" : "kept",
                              feature_text(d.integer_dot), feature_text(d.matrix_cores));
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

// Options that say how the device is tried, without --prove or --measure.
base::Status check_arguments(const DevicesArguments& a) {
    if (a.full && !a.measure) return base::invalid("--full: goes with --measure");
    if (!a.like.empty() && !a.measure) return base::invalid("--like: goes with --measure");
    if (a.prove || a.measure) return base::Ok{};
    const struct {
        const char* option;
        bool given;
    } options[] = {{"--device", !a.device.empty()},
                   {"--seed", !a.seed.empty()},
                   {"--quick", a.quick},
                   {"--record", !a.record.empty()}};
    for (const auto& [option, given] : options) {
        if (given) return base::invalid(std::string(option) + ": goes with --prove or --measure");
    }
    return base::Ok{};
}

base::Status run_devices(const DevicesArguments& a) {
    TRY_VOID(check_arguments(a));
    if (a.prove && a.measure)
        return base::invalid("--measure: not at the same time as --prove; one after the other");
    if (a.prove) return prove_devices(a);
    if (a.measure) return measure_devices(a);
    return show_devices(a.json);
}

}  // namespace

void add_devices(App& app) {
    CLI::App* devices = app.parser.add_subcommand(
        "devices", "What this machine can compute with, named as --device takes it");
    auto a = std::make_shared<DevicesArguments>();
    devices->add_flag("--json", a->json, "one JSON object");
    devices->add_flag("--prove", a->prove,
                      "compare every operator, and whole models, with the CPU, bit for bit");
    devices->add_flag("--measure", a->measure,
                      "measure how fast devices copy and multiply, the CPU among them");
    devices->add_flag("--full", a->full,
                      "with --measure: also every weight format and attention, at the shapes of "
                      "models with 1 and 8 billion weights");
    devices->add_option("--device", a->device,
                        "with these: only this one, like vulkan:0 [all GPUs; where there are "
                        "none, devices of software]");
    devices->add_option("--seed", a->seed, "of the random numbers [of the clock]");
    devices->add_flag("--quick", a->quick, "little of everything, to try it out");
    devices->add_option("--budget", a->budget, "with --full: about how long it may take")
        ->capture_default_str();
    devices->add_option("--like", a->like,
                        "with --measure: a type of 'helix machines' to set figures against");
    devices->add_option("--record", a->record, "a file that gets a line of JSON for each device");
    devices->footer(
        "Examples:\n"
        "  helix devices\n"
        "  helix devices --prove --device vulkan:0\n"
        "  helix devices --measure --like 'RTX 4090'\n"
        "  helix devices --measure --full --device vulkan:0 --record speed.jsonl");
    devices->callback([&app, a] { app.action = [a] { return run_devices(*a); }; });
}

}  // namespace helix::cli
