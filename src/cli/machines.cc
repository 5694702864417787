// helix machines

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "spec/catalogue.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

base::Status show_machines(bool json) {
    if (json) {
        nlohmann::ordered_json out = nlohmann::ordered_json::array();
        for (const spec::MachineType& type : spec::machine_catalogue()) {
            out.push_back({{"name", type.name},
                           {"kind", spec::to_string(type.kind)},
                           {"memory_bytes", type.memory_bytes},
                           {"memory_bytes_per_s", type.memory_bytes_per_s},
                           {"flops_per_s", type.flops_per_s},
                           {"int8_ops_per_s", type.int8_ops_per_s},
                           {"price_usd_per_hour", type.price_usd_per_hour}});
        }
        std::printf("%s\n", out.dump().c_str());
        return base::Ok{};
    }
    std::printf("%-18s %-12s %8s %10s %10s %8s\n", "type", "kind", "memory", "GB/s", "TFLOP/s",
                "USD/h");
    for (const spec::MachineType& type : spec::machine_catalogue()) {
        std::printf("%-18s %-12s %8s %10.0f %10.1f %8.2f\n", type.name.c_str(),
                    spec::to_string(type.kind), spec::format_bytes(type.memory_bytes).c_str(),
                    type.memory_bytes_per_s / 1e9, type.flops_per_s / 1e12,
                    type.price_usd_per_hour);
    }
    std::printf(
        "\nL4x2, A100x8: machines of several cards. Datasheet figures; the prices are rough "
        "ones of 2025.\n");
    return base::Ok{};
}

}  // namespace

void add_machines(App& app) {
    CLI::App* machines = app.parser.add_subcommand(
        "machines", "The machine types that cluster files may name, with their figures");
    auto json = std::make_shared<bool>(false);
    machines->add_flag("--json", *json, "a JSON array");
    machines->footer("Examples:\n  helix machines\n  helix machines --json");
    machines->callback([&app, json] { app.action = [json] { return show_machines(*json); }; });
}

}  // namespace helix::cli
