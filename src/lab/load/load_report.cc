#include "lab/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "spec/units.h"

namespace helix::lab {
namespace {

using nlohmann::ordered_json;

bool inside(const LoadWindow& window, double at_s) {
    return at_s >= window.start_s && at_s < window.end_s;
}

bool wrong_length(const RequestRecord& request) {
    if (request.failure) return false;
    return request.output_tokens != request.asked.output_tokens ||
           (request.prompt_tokens > 0 && request.prompt_tokens != request.asked.prompt_tokens);
}

// Mean of the tokens after the first; nothing for answers of one token.
std::optional<double> mean_tpot(const RequestRecord& request) {
    if (request.output_tokens < 2) return std::nullopt;
    return (request.last_s - request.first_s) / (request.output_tokens - 1);
}

bool meets(const RequestRecord& request, const ServiceGoal& goal) {
    if (goal.ttft_s && request.first_s - request.scheduled_s > *goal.ttft_s) return false;
    const auto tpot = mean_tpot(request);
    return !goal.tpot_s || !tpot || *tpot <= *goal.tpot_s;
}

ordered_json summary_json(const LatencySummary& s) {
    return {{"mean", s.mean}, {"p50", s.p50},  {"p95", s.p95},
            {"p99", s.p99},   {"max", s.most}, {"count", s.count}};
}

std::string summary_line(const char* name, const LatencySummary& s) {
    if (s.count == 0) return fmt::format("{:<26}{:>11}\n", name, "-");
    std::string line = fmt::format("{:<26}", name);
    for (const double seconds : {s.mean, s.p50, s.p95, s.p99, s.most}) {
        line += fmt::format("{:>11}", spec::format_duration(seconds));
    }
    return line + "\n";
}

std::string goal_text(const ServiceGoal& goal) {
    std::string text;
    if (goal.ttft_s) text += "first token within " + spec::format_duration(*goal.ttft_s);
    if (goal.ttft_s && goal.tpot_s) text += " and ";
    if (goal.tpot_s) text += spec::format_duration(*goal.tpot_s) + " a token";
    return text;
}

void count_requests(const LoadResult& result, const ServiceGoal& goal, LoadReport& report) {
    std::vector<double> ttft;
    std::vector<double> tpot;
    std::vector<double> latency;
    std::vector<double> delay;
    for (const RequestRecord& request : result.requests) {
        if (request.failure) {
            auto& failures = report.failures[request.failure->kind];
            if (failures.count++ == 0) failures.example = request.failure->message;
        }
        if (wrong_length(request)) ++report.wrong_length;
        if (request.first_s >= 0 && inside(report.window, request.first_s)) {
            report.prompt_tokens_per_s += request.asked.prompt_tokens;
        }
        if (!request.failure && inside(report.window, request.last_s)) report.requests_per_s += 1;
        if (!inside(report.window, request.scheduled_s)) continue;
        ++report.counted;
        delay.push_back(request.sent_s - request.scheduled_s);
        if (request.failure || request.first_s < 0) {
            ++report.failed;
            continue;
        }
        ttft.push_back(request.first_s - request.scheduled_s);
        latency.push_back(request.last_s - request.scheduled_s);
        if (const auto mean = mean_tpot(request)) tpot.push_back(*mean);
        if (meets(request, goal)) ++report.within_goal;
    }
    report.ttft = summarise(std::move(ttft));
    report.tpot_per_request = summarise(std::move(tpot));
    report.latency = summarise(std::move(latency));
    report.send_delay = summarise(std::move(delay));
}

}  // namespace

LatencySummary summarise(std::vector<double> seconds) {
    LatencySummary summary;
    summary.count = seconds.size();
    if (seconds.empty()) return summary;
    std::sort(seconds.begin(), seconds.end());
    const auto n = static_cast<double>(seconds.size());
    const auto at = [&](double share) { return seconds[static_cast<std::size_t>(n * share)]; };
    double sum = 0;
    for (const double s : seconds) sum += s;
    summary.mean = sum / n;
    summary.p50 = at(0.50);
    summary.p95 = at(0.95);
    summary.p99 = at(0.99);
    summary.most = seconds.back();
    return summary;
}

LoadReport make_report(const LoadResult& result, LoadWindow window, const ServiceGoal& goal) {
    LoadReport report;
    report.window = window;
    report.sent = result.requests.size();
    report.interrupted = result.interrupted;
    count_requests(result, goal, report);
    std::vector<double> gaps;
    std::size_t tokens = 0;
    for (const TokenArrival& token : result.tokens) {
        if (!inside(window, static_cast<double>(token.at_s))) continue;
        ++tokens;
        if (token.gap_s >= 0) gaps.push_back(static_cast<double>(token.gap_s));
    }
    const double seconds = std::max(window.end_s - window.start_s, 1e-9);
    report.decode_tokens_per_s = static_cast<double>(gaps.size()) / seconds;
    report.output_tokens_per_s = static_cast<double>(tokens) / seconds;
    report.prompt_tokens_per_s /= seconds;
    report.requests_per_s /= seconds;
    report.goodput_per_s = static_cast<double>(report.within_goal) / seconds;
    report.tpot = summarise(std::move(gaps));
    return report;
}

std::vector<Comparison> compare(const LoadReport& measured, const LoadReport& simulated) {
    std::vector<Comparison> all = {
        {"decode_tokens_per_s", measured.decode_tokens_per_s, simulated.decode_tokens_per_s},
        {"requests_per_s", measured.requests_per_s, simulated.requests_per_s}};
    const auto add = [&](const std::string& name, const LatencySummary& m,
                         const LatencySummary& s) {
        all.push_back({name + ".mean", m.mean, s.mean});
        all.push_back({name + ".p50", m.p50, s.p50});
        all.push_back({name + ".p95", m.p95, s.p95});
    };
    add("ttft_s", measured.ttft, simulated.ttft);
    add("tpot_per_request_s", measured.tpot_per_request, simulated.tpot_per_request);
    add("latency_s", measured.latency, simulated.latency);
    return all;
}

std::string comparison_text(const std::vector<Comparison>& comparisons) {
    std::string text =
        fmt::format("\n{:<26}{:>12}{:>12}{:>10}\n", "", "measured", "simulated", "error");
    for (const Comparison& c : comparisons) {
        const bool time = c.name.find("_s.") != std::string::npos;
        const auto shown = [&](double value) {
            return time ? spec::format_duration(value) : fmt::format("{:.2f}", value);
        };
        text += fmt::format("{:<26}{:>12}{:>12}{:>+8.1f} %\n", c.name, shown(c.measured),
                            shown(c.simulated), 100 * c.error());
    }
    return text;
}

std::string report_json(const LoadReport& report, const ServiceGoal& goal, const std::string& load,
                        const std::vector<Comparison>& comparisons) {
    ordered_json json;
    json["load"] = ordered_json::parse(load);
    json["window_s"] = {report.window.start_s, report.window.end_s};
    json["requests"] = {{"sent", report.sent},
                        {"counted", report.counted},
                        {"failed", report.failed},
                        {"wrong_length", report.wrong_length}};
    json["decode_tokens_per_s"] = report.decode_tokens_per_s;
    json["output_tokens_per_s"] = report.output_tokens_per_s;
    json["prompt_tokens_per_s"] = report.prompt_tokens_per_s;
    json["requests_per_s"] = report.requests_per_s;
    json["ttft_s"] = summary_json(report.ttft);
    json["tpot_s"] = summary_json(report.tpot);
    json["tpot_per_request_s"] = summary_json(report.tpot_per_request);
    json["latency_s"] = summary_json(report.latency);
    json["send_delay_s"] = summary_json(report.send_delay);
    if (goal.given()) {
        ordered_json& goodput = json["goodput"];
        if (goal.ttft_s) goodput["slo_ttft_s"] = *goal.ttft_s;
        if (goal.tpot_s) goodput["slo_tpot_s"] = *goal.tpot_s;
        goodput["requests"] = report.within_goal;
        goodput["requests_per_s"] = report.goodput_per_s;
    }
    json["errors"] = ordered_json::object();
    for (const auto& [kind, failures] : report.failures) {
        json["errors"][kind] = {{"count", failures.count}, {"example", failures.example}};
    }
    json["interrupted"] = report.interrupted;
    for (const Comparison& c : comparisons) {
        json["against_simulation"][c.name] = {
            {"measured", c.measured}, {"simulated", c.simulated}, {"error", c.error()}};
    }
    return json.dump(1);
}

std::string report_text(const LoadReport& report, const ServiceGoal& goal) {
    std::string text =
        fmt::format("{} requests sent, {} counted over {}{}\n\n", report.sent, report.counted,
                    spec::format_duration(report.window.end_s - report.window.start_s),
                    report.interrupted ? " (interrupted)" : "");
    text += fmt::format("{:<26}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "", "mean", "p50", "p95", "p99",
                        "max");
    text += summary_line("time to first token", report.ttft);
    text += summary_line("time per token", report.tpot);
    text += summary_line("  mean of a request", report.tpot_per_request);
    text += summary_line("whole answer", report.latency);
    text += fmt::format("\n{:<26}{:>11.1f}\n{:<26}{:>11.1f}\n{:<26}{:>11.1f}\n{:<26}{:>11.2f}\n",
                        "decode tokens/s", report.decode_tokens_per_s, "output tokens/s",
                        report.output_tokens_per_s, "prompt tokens/s", report.prompt_tokens_per_s,
                        "requests/s", report.requests_per_s);
    if (goal.given()) {
        const double share = report.counted == 0 ? 0
                                                 : static_cast<double>(report.within_goal) /
                                                       static_cast<double>(report.counted);
        text += fmt::format("{:<26}{:>11.2f}   {:.0f} % with {}\n", "goodput, requests/s",
                            report.goodput_per_s, share * 100, goal_text(goal));
    }
    if (report.failures.empty()) text += "\nno errors\n";
    for (const auto& [kind, failures] : report.failures) {
        text += fmt::format("\n{} x {}: {}\n", failures.count, kind, failures.example);
    }
    if (report.wrong_length > 0) {
        text += fmt::format("\n{} requests were not as long as asked for\n", report.wrong_length);
    }
    // Rates and latencies measured by a generator that is late itself say little.
    if (report.send_delay.p99 > 0.01 && report.send_delay.p99 > 0.05 * report.ttft.p50) {
        text += fmt::format(
            "\nthe load generator was late: p99 {} (its own machine is too busy for this load)\n",
            spec::format_duration(report.send_delay.p99));
    }
    return text;
}

}  // namespace helix::lab
