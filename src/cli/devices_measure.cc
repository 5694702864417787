// helix devices --measure

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/device_choice.h"
#include "cli/progress.h"
#include "engine/measure/device_speed.h"
#include "engine/measure/kernel_speed.h"
#include "spec/catalogue.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

namespace speeds = engine::measure;

struct MeasuredDevice {
    engine::NamedDevice device;
    speeds::DeviceSpeed speed;
    speeds::KernelSpeeds kernels;  // with --full
};

nlohmann::ordered_json timing_json(const speeds::Timing& t) {
    return {{"seconds", t.seconds}, {"spread", t.spread}, {"runs", t.runs}};
}

nlohmann::ordered_json speed_json(const speeds::Speed& speed, const char* unit) {
    nlohmann::ordered_json json = {{unit, speed.per_s}};
    json.update(timing_json(speed.timing));
    return json;
}

nlohmann::ordered_json kernels_json(const speeds::KernelSpeeds& kernels) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const speeds::KernelSpeed& k : kernels.measured) {
        nlohmann::ordered_json one = {{"kernel", k.kernel},       {"shape", k.shape},
                                      {"rows", k.rows},           {"bytes_per_s", k.bytes_per_s},
                                      {"ops_per_s", k.ops_per_s}, {"share", k.share},
                                      {"share_of", k.share_of}};
        one.update(timing_json(k.timing));
        list.push_back(std::move(one));
    }
    return list;
}

// What the datasheet of a type of machine says, beside what was measured. Without figures of
// integers it is those of 16 bits.
struct Likeness {
    spec::MachineType type;
    double copy = 0, decode_q8_0 = 0, decode_q4_k = 0, prefill = 0;
};

Likeness likeness_of(const spec::MachineType& type, const speeds::DeviceSpeed& speed) {
    const double ops = type.int8_ops_per_s > 0 ? type.int8_ops_per_s : type.flops_per_s;
    return {type, speed.copy.per_s / type.memory_bytes_per_s,
            speed.decode_q8_0.per_s / type.memory_bytes_per_s,
            speed.decode_q4_k.per_s / type.memory_bytes_per_s, speed.prefill.per_s / ops};
}

nlohmann::ordered_json measured_json(const MeasuredDevice& m, const DevicesArguments& a,
                                     std::uint64_t seed,
                                     const std::optional<spec::MachineType>& like) {
    const speeds::DeviceSpeed& s = m.speed;
    nlohmann::ordered_json json = record_head("speed", m.device, seed);
    if (a.quick) json["quick"] = true;
    json["copy"] = {{"device", speed_json(s.copy, "bytes_per_s")},
                    {"host_to_device", speed_json(s.upload, "bytes_per_s")},
                    {"device_to_host", speed_json(s.download, "bytes_per_s")}};
    json["decode"] = {{"q8_0", speed_json(s.decode_q8_0, "bytes_per_s")},
                      {"q4_k", speed_json(s.decode_q4_k, "bytes_per_s")}};
    json["prefill"] = {{"q8_0", speed_json(s.prefill, "ops_per_s")}};
    json["prefill"]["rows"] = s.prefill_rows;
    if (s.dot_peak.per_s > 0) json["dot"] = speed_json(s.dot_peak, "ops_per_s");
    if (like) {
        const Likeness l = likeness_of(*like, s);
        json["like"] = {{"type", l.type.name},
                        {"copy", l.copy},
                        {"decode_q8_0", l.decode_q8_0},
                        {"decode_q4_k", l.decode_q4_k},
                        {"prefill", l.prefill},
                        {"planned_memory_efficiency", l.type.memory_efficiency},
                        {"planned_compute_efficiency", l.type.compute_efficiency}};
    }
    if (a.full) {
        json["kernels"] = kernels_json(m.kernels);
        json["skipped"] = m.kernels.skipped;
    }
    return json;
}

std::string speed_row(const char* what, const speeds::Speed& speed, double unit,
                      const char* unit_name, const std::string& note) {
    return fmt::format("  {:<24}{:>10.4g} {:<6} +-{:>4.1f} %  {}\n", what, speed.per_s / unit,
                       unit_name, speed.timing.spread * 100, note);
}

std::string likeness_text(const Likeness& l) {
    return fmt::format(
        "  of what {} has by its datasheet: copy {:.3f}, decode Q8_0 {:.3f}, Q4_K {:.3f} (plans "
        "without measurements count on {:.2f}); prefill {:.4f} of {} (on {:.2f} of 16 bits)\n",
        l.type.name, l.copy, l.decode_q8_0, l.decode_q4_k, l.type.memory_efficiency, l.prefill,
        l.type.int8_ops_per_s > 0 ? "int8" : "16 bits", l.type.compute_efficiency);
}

std::string kernels_text(const speeds::KernelSpeeds& kernels) {
    std::string text =
        "\n| kernel | shape | rows | time | spread | GB/s | GOP/s | share | of |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n";
    for (const speeds::KernelSpeed& k : kernels.measured) {
        text += fmt::format("| {} | {} | {} | {} | {:.1f} % | {:.4g} | {:.4g} | {:.1f} % | {} |\n",
                            k.kernel, k.shape, k.rows, spec::format_duration(k.timing.seconds),
                            k.timing.spread * 100, k.bytes_per_s * 1e-9, k.ops_per_s * 1e-9,
                            k.share * 100, k.share_of);
    }
    for (const std::string& skipped : kernels.skipped)
        text += fmt::format("\nskipped: {}", skipped);
    return text + (kernels.skipped.empty() ? "" : "\n");
}

std::string measured_text(const MeasuredDevice& m, const std::optional<spec::MachineType>& like,
                          bool full) {
    constexpr double kGiga = 1e9;
    constexpr double kTera = 1e12;
    const speeds::DeviceSpeed& s = m.speed;
    std::string text = fmt::format("{}  {}\n", m.device.name, m.device.device);
    text += speed_row("copy", s.copy, kGiga, "GB/s", "read and written, in its memory");
    text += speed_row("host to device", s.upload, kGiga, "GB/s", "");
    text += speed_row("device to host", s.download, kGiga, "GB/s", "");
    text += speed_row("decode Q8_0", s.decode_q8_0, kGiga, "GB/s", "of weights, one row");
    text += speed_row("decode Q4_K", s.decode_q4_k, kGiga, "GB/s", "of weights, one row");
    text += speed_row("prefill Q8_0", s.prefill, kTera, "TOP/s",
                      fmt::format("int8, {} rows", s.prefill_rows));
    if (s.dot_peak.per_s > 0)
        text += speed_row("dot products alone", s.dot_peak, kTera, "TOP/s", "int8");
    if (like) text += likeness_text(likeness_of(*like, s));
    if (full) text += kernels_text(m.kernels);
    return text;
}

base::Result<MeasuredDevice> measure_one(const engine::NamedDevice& named,
                                         const DevicesArguments& a, std::uint64_t seed,
                                         double budget_s) {
    ProgressLine progress("measuring " + named.name);
    MeasuredDevice measured{named, {}, {}};
    model::ModelConfig config;
    config.n_kv_heads = 1;
    TRY(const auto device, named.open(config));
    const speeds::MeasureSize size =
        speeds::fitting_size(*device, a.quick ? speeds::tiny_size() : speeds::MeasureSize{});
    const std::uint64_t first = a.full ? speeds::kDeviceSpeeds * 4 : speeds::kDeviceSpeeds;
    TRY(measured.speed, speeds::measure_device(*device, size, seed, [&](std::uint64_t done) {
            progress.update(done, first);
        }));
    if (named.dot_peak) {
        TRY(measured.speed.dot_peak, named.dot_peak(size.each_s));
    }
    if (!a.full) return measured;
    speeds::KernelRequest request;
    request.size = size;
    request.tiny = a.quick;
    request.ceilings = measured.speed;
    request.seed = seed;
    request.budget_s = budget_s;
    request.on_progress = [&](std::uint64_t done, std::uint64_t total) {
        progress.update(total + 3 * done, 4 * total);
    };
    TRY(measured.kernels, speeds::measure_kernels(*device, request));
    return measured;
}

}  // namespace

base::Status measure_devices(const DevicesArguments& a) {
    TRY(const std::uint64_t seed, chosen_seed(a));
    TRY(const double budget_s, spec::parse_duration("--budget", a.budget));
    std::optional<spec::MachineType> like;
    if (!a.like.empty()) {
        auto type = spec::find_machine_type(a.like);
        if (!type.ok()) return base::Error{type.error().code, "--like: " + type.error().message};
        like = std::move(*type);
    }
    TRY(const auto devices, chosen_devices(a, true));
    nlohmann::ordered_json all;
    for (const engine::NamedDevice& device : devices) {
        TRY(const MeasuredDevice measured, measure_one(device, a, seed, budget_s));
        nlohmann::ordered_json json = measured_json(measured, a, seed, like);
        TRY_VOID(write_record(a, json));
        all["devices"].push_back(std::move(json));
        if (a.json) continue;
        std::fputs(measured_text(measured, like, a.full).c_str(), stdout);
        std::fflush(stdout);
    }
    if (a.json) std::fputs(json_line(all, 1).c_str(), stdout);
    return base::Ok{};
}

}  // namespace helix::cli
