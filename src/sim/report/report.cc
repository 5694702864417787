#include "sim/report/report.h"

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

void add_detail(const RunDetail& detail, const std::vector<double>& node_busy, Json& json) {
    json["offered_tokens_per_s"] = detail.offered_tokens_per_s;
    json["requests_per_s"] = detail.requests_per_s;
    json["counted"] = {
        {"created", detail.created}, {"finished", detail.finished}, {"rejected", detail.rejected}};
    json["queueing_s"] = summary_json(detail.queueing);
    json["latency_s"] = summary_json(detail.latency);
    json["goodput"] = {{"ttft_slo_s", detail.ttft_slo_s},
                       {"tpot_slo_s", detail.tpot_slo_s},
                       {"requests_per_s", detail.goodput_per_s},
                       {"share", detail.good_share}};
    json["nodes"] = Json::array();
    for (const NodeUse& node : detail.nodes) {
        json["nodes"].push_back({{"name", node.name},
                                 {"type", node.type},
                                 {"layers", {node.layers.begin, node.layers.end}},
                                 {"busy", node_busy.at(static_cast<std::size_t>(node.node))},
                                 {"kv_mean", node.kv_mean},
                                 {"kv_peak", node.kv_peak}});
    }
    json["links"] = Json::array();
    for (const LinkUse& link : detail.links) {
        json["links"].push_back({{"from", link.from},
                                 {"to", link.to},
                                 {"busy", link.busy},
                                 {"bytes_per_s", link.bytes_per_s},
                                 {"mean_wait_s", link.mean_wait_s}});
    }
}

std::string percent(double share) {
    return fmt::format("{:.1f} %", share * 100);
}

// What people ask first of all that a run shows besides its latencies.
std::string detail_rows(const RunDetail& detail) {
    std::string out;
    const auto row = [&](const char* name, const std::string& value) {
        out += fmt::format("{:<22} {}\n", name, value);
    };
    row("offered",
        fmt::format("{:.1f} tokens/s, prompts and outputs", detail.offered_tokens_per_s));
    if (detail.ttft_slo_s > 0 || detail.tpot_slo_s > 0) {
        row("goodput", fmt::format("{:.3f} of {:.3f} requests/s ({})", detail.goodput_per_s,
                                   detail.requests_per_s, percent(detail.good_share)));
    }
    const auto fullest =
        std::max_element(detail.nodes.begin(), detail.nodes.end(),
                         [](const NodeUse& a, const NodeUse& b) { return a.kv_mean < b.kv_mean; });
    if (fullest != detail.nodes.end()) {
        row("KV memory, on average",
            fmt::format("{} of {}", percent(fullest->kv_mean), fullest->name));
    }
    if (!detail.links.empty()) {
        const LinkUse& link = detail.links.front();
        row("busiest link", fmt::format("{} -> {}: {}", link.from, link.to, percent(link.busy)));
    }
    return out;
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
    json["migrated"] = report.migrated;
    json["migrations_given_up"] = report.migrations_given_up;
    json["admitted"] = report.admitted;
    json["finished"] = report.finished;
    json["iterations"] = report.iterations;
    json["node_busy"] = report.node_busy;
    json["node_s"] = report.node_s;
    json["ready_s"] = report.ready_s;
    if (report.peak_tokens_per_s > 0) json["peak_tokens_per_s"] = report.peak_tokens_per_s;
    if (report.detail) add_detail(*report.detail, report.node_busy, json);
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
    if (report.detail) {
        out += latency_row("  before a place", report.detail->queueing);
        out += latency_row("  whole answer", report.detail->latency);
    }
    if (report.peak_tokens_per_s > 0) {
        row("peak", fmt::format("{:.1f} tokens/s, prompts and outputs", report.peak_tokens_per_s));
    }
    if (report.detail) out += detail_rows(*report.detail);
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
    if (report.detail) {  // what a page about the same run shows
        row("requests counted",
            fmt::format("{} came, {} finished, {} rejected", report.detail->created,
                        report.detail->finished, report.detail->rejected));
    }
    row("requests, whole run",
        fmt::format("{} admitted, {} finished, {} rejected, {} preemptions, {} migrations",
                    report.admitted, report.finished, report.rejected, report.preempted,
                    report.migrated));
    row("passes", fmt::format("{}", report.iterations));
    row("digest", fmt::format("{:016x}", report.digest));
    return out;
}

}  // namespace helix::sim
