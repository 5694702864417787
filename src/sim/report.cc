#include "sim/report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

namespace helix::sim {
namespace {

using Json = nlohmann::ordered_json;

Json summary_json(const LatencySummary& summary) {
    return {{"mean", summary.mean},
            {"p50", summary.p50},
            {"p95", summary.p95},
            {"p99", summary.p99},
            {"count", summary.count}};
}

std::string latency_row(const char* name, const LatencySummary& s) {
    return fmt::format("{:<22} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n", name, s.mean, s.p50, s.p95,
                       s.p99);
}

}  // namespace

std::string report_json(const SimReport& report) {
    Json json;
    json["decode_tokens_per_s"] = report.decode_tokens_per_s;
    json["prompt_tokens_per_s"] = report.prompt_tokens_per_s;
    json["ttft_s"] = summary_json(report.ttft);
    json["tpot_s"] = summary_json(report.tpot);
    json["max_flow_tokens_per_s"] = report.max_flow_tokens_per_s;
    json["mean_depth"] = report.mean_depth;
    json["mean_resident"] = report.mean_resident;
    json["kv_peak"] = report.kv_peak;
    json["kv_layer_peak"] = report.kv_layer_peak;
    json["kv_overflowed"] = report.kv_overflowed;
    json["rejected"] = report.rejected;
    json["preempted"] = report.preempted;
    json["admitted"] = report.admitted;
    json["finished"] = report.finished;
    json["iterations"] = report.iterations;
    json["node_busy"] = report.node_busy;
    json["digest"] = fmt::format("{:016x}", report.digest);
    return json.dump(1);
}

std::string report_table(const SimReport& report) {
    std::string out;
    const auto row = [&](const char* name, const std::string& value) {
        out += fmt::format("{:<22} {}\n", name, value);
    };
    row("decode throughput", fmt::format("{:.2f} tokens/s", report.decode_tokens_per_s));
    row("prompt throughput", fmt::format("{:.2f} tokens/s", report.prompt_tokens_per_s));
    out += fmt::format("{:<22} {:>9} {:>9} {:>9} {:>9}\n", "seconds", "mean", "p50", "p95", "p99");
    out += latency_row("  to the first token", report.ttft);
    out += latency_row("  per token after it", report.tpot);
    row("planned flow", fmt::format("{:.2f} tokens/s", report.max_flow_tokens_per_s));
    row("stages of a request", fmt::format("{:.2f}", report.mean_depth));
    row("requests inside", fmt::format("{:.1f} on average", report.mean_resident));
    row("KV memory, peak", fmt::format("{:.1f} % of the fullest node{}", report.kv_peak * 100,
                                       report.kv_overflowed ? "  (MORE THAN IT HAS)" : ""));
    double busy = 0;
    double busiest = 0;
    for (const double share : report.node_busy) {
        busy += share / static_cast<double>(report.node_busy.size());
        busiest = std::max(busiest, share);
    }
    row("machines busy",
        fmt::format("{:.1f} % on average, {:.1f} % at most", busy * 100, busiest * 100));
    row("requests",
        fmt::format("{} admitted, {} finished, {} rejected, {} preemptions", report.admitted,
                    report.finished, report.rejected, report.preempted));
    row("passes", fmt::format("{}", report.iterations));
    row("digest", fmt::format("{:016x}", report.digest));
    return out;
}

}  // namespace helix::sim
