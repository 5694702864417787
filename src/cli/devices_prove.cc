// helix devices --prove

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/version.h"
#include "cli/device_choice.h"
#include "cli/progress.h"
#include "engine/proof/device_proof.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

using engine::proof::CheckOutcome;

// What is said of a device once all has been tried.
struct ProvenDevice {
    engine::NamedDevice device;
    std::uint64_t seed = 0;
    bool quick = false;
    std::string start_up;  // what the proof at start-up has shown; "" of the CPU
    std::vector<CheckOutcome> outcomes;
};

int cases_of(const std::vector<CheckOutcome>& outcomes) {
    int cases = 0;
    for (const CheckOutcome& outcome : outcomes) cases += outcome.cases;
    return cases;
}

std::string outcome_text(const CheckOutcome& o) {
    if (!o.wrong.empty()) return fmt::format("  {:<34} WRONG: {}\n", o.name, o.wrong);
    return fmt::format("  {:<34} same bits {:>4} {:<5} {:>8}\n", o.name, o.cases,
                       o.cases == 1 ? "case" : "cases", spec::format_duration(o.seconds));
}

nlohmann::ordered_json proof_json(const ProvenDevice& p) {
    nlohmann::ordered_json json = record_head("proof", p.device, p.seed);
    if (p.quick) json["quick"] = true;
    if (!p.start_up.empty()) json["start_up"] = p.start_up;
    json["proven"] = engine::proof::all_right(p.outcomes);
    json["checks"] = nlohmann::ordered_json::array();
    for (const CheckOutcome& o : p.outcomes) {
        nlohmann::ordered_json check = {
            {"name", o.name}, {"cases", o.cases}, {"seconds", o.seconds}};
        if (!o.wrong.empty()) check["wrong"] = o.wrong;
        json["checks"].push_back(std::move(check));
    }
    return json;
}

// A row of the table in docs/gpus.md.
std::string proof_row(const ProvenDevice& p) {
    const bool right = engine::proof::all_right(p.outcomes);
    return fmt::format(
        "| device | driver | start-up proof | run |\n| --- | --- | --- | --- |\n"
        "| {} ({}) | {} | {} | {}, helix {}, `helix devices --prove{} --seed {}`: {} checks of {} "
        "cases, {}; UUID {} |\n",
        p.device.device, p.device.type, p.device.driver.empty() ? "-" : p.device.driver,
        p.start_up.empty() ? "-" : p.start_up, date_now(), base::kVersion,
        p.quick ? " --quick" : "", p.seed, p.outcomes.size(), cases_of(p.outcomes),
        right ? "bit-equal to the CPU" : "NOT equal to the CPU",
        p.device.uuid.empty() ? "-" : p.device.uuid);
}

// The CPU is compared with its plainest kernels.
engine::NamedDevice right_device(const engine::NamedDevice& device) {
    return device.name == "cpu" ? engine::cpu_device(engine::ops::Isa::portable)
                                : engine::cpu_device();
}

std::string start_up_text(const engine::NamedDevice& device) {
    for (const auto& d : engine::list_vulkan_devices().devices) {
        if (fmt::format("vulkan:{}", d.index) != device.name) continue;
        if (!d.refused.empty()) return "refused: " + d.refused;
        return fmt::format("fma {}, subnormals {}, integer dot product {}, matrix cores {}",
                           d.fused_fma ? "fused" : "by doubles",
                           d.flushes_subnormals ? "flushed" : "kept",
                           engine::to_string(d.integer_dot), engine::to_string(d.matrix_cores));
    }
    return "";
}

ProvenDevice prove_one(const engine::NamedDevice& device, const DevicesArguments& a,
                       std::uint64_t seed) {
    ProvenDevice proven{device, seed, a.quick, start_up_text(device), {}};
    if (!a.json) {
        std::fputs(fmt::format("{}  {}, seed {}\n", device.name, device.device, seed).c_str(),
                   stdout);
        if (!proven.start_up.empty())
            std::fputs(fmt::format("  {:<34} {}\n", "start-up proof", proven.start_up).c_str(),
                       stdout);
        std::fflush(stdout);
    }
    ProgressLine progress("proving " + device.name);
    engine::proof::ProofRequest request;
    request.device = device.open;
    request.right = right_device(device).open;
    request.seed = seed;
    request.quick = a.quick;
    if (a.json) {
        request.on_progress = [&](std::uint64_t done, std::uint64_t total) {
            progress.update(done, total);
        };
    } else {
        request.on_check = [](const CheckOutcome& outcome) {
            std::fputs(outcome_text(outcome).c_str(), stdout);
            std::fflush(stdout);
        };
    }
    proven.outcomes = engine::proof::prove_device(request);
    if (!a.json) {
        std::fputs(
            fmt::format("\nFor the table in docs/gpus.md:\n\n{}\n", proof_row(proven)).c_str(),
            stdout);
    }
    return proven;
}

}  // namespace

base::Status prove_devices(const DevicesArguments& a) {
    TRY(const std::uint64_t seed, chosen_seed(a));
    TRY(const auto devices, chosen_devices(a, false));
    nlohmann::ordered_json all;
    std::string wrong;
    for (const engine::NamedDevice& device : devices) {
        const ProvenDevice proven = prove_one(device, a, seed);
        nlohmann::ordered_json json = proof_json(proven);
        TRY_VOID(write_record(a, json));
        all["devices"].push_back(std::move(json));
        for (const CheckOutcome& o : proven.outcomes) {
            if (o.wrong.empty() || !wrong.empty()) continue;
            wrong = fmt::format(
                "{} ({}) computes wrongly: {}: {}; again: helix devices --prove{} --device {} "
                "--seed {}",
                device.name, device.device, o.name, o.wrong, a.quick ? " --quick" : "", device.name,
                seed);
        }
    }
    if (a.json) std::fputs(json_line(all, 1).c_str(), stdout);
    if (!wrong.empty()) return base::Error{base::Errc::unavailable, wrong};
    return base::Ok{};
}

}  // namespace helix::cli
