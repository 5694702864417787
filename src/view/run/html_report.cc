#include "view/run/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "view/run/html_report_parts.h"

namespace helix::view {
namespace {

using html::PageData;
using html::PlotSeries;

std::string tile(const std::string& name, const std::string& value, const std::string& unit,
                 const std::string& below) {
    return fmt::format(
        "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"value\">{}<small>{}</small>"
        "</div><div class=\"below\">{}</div></div>\n",
        markup(name), markup(value), markup(unit), markup(below));
}

std::string latency_tile(const std::string& name, const sim::Distribution& values) {
    if (values.count() == 0) return tile(name, "–", "", "no samples");
    constexpr std::array<double, 3> kShares = {0.5, 0.95, 0.99};
    const std::vector<double> at = values.quantiles(kShares);
    const std::string text = format_seconds(at[0]);
    const std::size_t space = text.find(kNoBreak);
    return tile(name, text.substr(0, space),
                space == std::string::npos
                    ? ""
                    : text.substr(space + std::string_view(kNoBreak).size()) + " median",
                fmt::format("mean {} · p95 {} · p99 {}", format_seconds(values.mean()),
                            format_seconds(at[1]), format_seconds(at[2])));
}

std::string goodput_tile(const sim::Recording& r) {
    if (r.ttft_limit_s <= 0 && r.tpot_limit_s <= 0) return "";
    std::string limits;
    if (r.ttft_limit_s > 0) limits = "TTFT " + format_seconds(r.ttft_limit_s);
    if (r.tpot_limit_s > 0) {
        limits += (limits.empty() ? "TPOT " : ", TPOT ") + format_seconds(r.tpot_limit_s);
    }
    const double share =
        r.finished == 0 ? 0 : static_cast<double>(r.good) / static_cast<double>(r.finished);
    return tile("Goodput", format_count(r.goodput_per_s), "requests/s",
                fmt::format("{} of finished within {}", format_percent(share), limits));
}

std::string machine_tiles(const sim::Recording& r) {
    double busy = 0;
    double used = 0;
    double capacity = 0;
    double n = 0;
    const sim::NodeRecord* busiest = nullptr;
    const sim::NodeRecord* fullest = nullptr;
    for (const sim::NodeRecord& node : r.nodes) {
        if (node.layers.empty()) continue;
        busy += node.busy;
        ++n;
        if (busiest == nullptr || node.busy > busiest->busy) busiest = &node;
        if (fullest == nullptr || node.kv_peak > fullest->kv_peak) fullest = &node;
        used += node.kv_mean * node.kv_capacity;
        capacity += node.kv_capacity;
    }
    if (busiest == nullptr) return "";
    std::string out =
        tile("Machines computing", format_percent(busy / n), "",
             fmt::format("busiest: {}, {}", busiest->name, format_percent(busiest->busy)));
    if (capacity > 0) {
        out += tile(
            "KV memory, at most", format_percent(fullest->kv_peak), "",
            fmt::format("{} · {} in the mean", fullest->name, format_percent(used / capacity)));
    }
    return out;
}

std::string tiles(const sim::Recording& r, const ReportInfo& info) {
    std::string below = format_count(r.prompt_tokens_per_s) + " tok/s of prompts";
    if (info.max_flow_tokens_per_s > 0) {
        below += " · max flow " + format_count(info.max_flow_tokens_per_s);
    }
    std::string out = "<div class=\"tiles\">\n";
    out += tile("Decode throughput", format_count(r.decode_tokens_per_s), "tok/s", below);
    out += goodput_tile(r);
    out += latency_tile("First token (TTFT)", r.ttft);
    out += latency_tile("Each token after (TPOT)", r.tpot);
    out += latency_tile("Waiting for admission", r.queueing);
    const auto count = [](std::uint64_t n) { return format_count(static_cast<double>(n)); };
    std::string ends = count(r.created) + " created";
    if (r.rejected > 0) ends += " · " + count(r.rejected) + " rejected";
    if (r.preempted > 0) ends += " · " + count(r.preempted) + " preempted";
    out += tile("Requests finished", count(r.finished), "", ends);
    out += tile("Running at a time", format_count(r.mean_running), "requests",
                format_count(r.mean_waiting) + " waiting");
    out += machine_tiles(r);
    if (!r.links.empty()) {
        const sim::LinkRecord& link = r.links.front();
        out += tile("Busiest link", format_percent(link.busy), "",
                    html::node_name(r, link.from) + " → " + html::node_name(r, link.to));
    }
    return out + "</div>\n";
}

std::string facts(const sim::Recording& r, const ReportInfo& info) {
    std::string out = "<dl class=\"facts\">";
    const auto add = [&](const std::string& name, const std::string& value) {
        out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", markup(name), markup(value));
    };
    for (const auto& [name, value] : info.facts) add(name, value);
    add("Machines", fmt::format("{}", r.nodes.size()));
    add("Layers", fmt::format("{}", r.n_layers));
    add("Counted", fmt::format("{} after {} of warm-up", format_seconds(r.window_s()),
                               format_seconds(r.window_begin_s - r.begin_s)));
    return out + "</dl>\n";
}

std::string card(const std::string& title, const std::string& aside, const std::string& body) {
    return "<section class=\"card\"><h2>" + title + "</h2>" +
           (aside.empty() ? "" : "<div class=\"bar\">" + aside + "</div>") + "\n" + body +
           "</section>\n";
}

std::string throughput(const sim::Recording& r, PageData& data) {
    const std::vector<PlotSeries> decode = {{"decodes", "s1", r.decode_over_time, true}};
    const std::vector<PlotSeries> prompt = {{"prompts", "s2", r.prompt_over_time, true}};
    const std::vector<PlotSeries> requests = {{"waiting", "s3", r.waiting_over_time, false},
                                              {"running", "s1", r.running_over_time, true}};
    const auto plot = [&](const char* id, const std::vector<PlotSeries>& series) {
        return html::time_plot(r, {id, 580, 210, series, format_count}, data);
    };
    return "<div class=\"two\">" + card("Decode tokens per second", "", plot("decode", decode)) +
           card("Prompt tokens per second", "", plot("prompt", prompt)) + "</div>\n" +
           card("Requests in the cluster", html::legend(requests),
                html::time_plot(r, {"requests", 1200, 170, requests, format_count}, data));
}

std::string latencies(const sim::Recording& r, PageData& data) {
    const auto note = [](const sim::Distribution& d) {
        return fmt::format("<p class=\"note\">{} samples{}</p>",
                           format_count(static_cast<double>(d.count())),
                           d.exact() ? "" : ", percentiles within 0.2 %");
    };
    return "<div class=\"two\">" +
           card(r.from_admission ? "Time to first token, from admission" : "Time to first token",
                "", html::cdf_plot({"ttft", "s1", r.ttft, r.ttft_limit_s}, data) + note(r.ttft)) +
           card("Time per token after it", "",
                html::cdf_plot({"tpot", "s2", r.tpot, r.tpot_limit_s}, data) + note(r.tpot)) +
           "</div>\n";
}

std::string kv_memory(const sim::Recording& r, PageData& data) {
    PlotSeries fullest{"fullest machine", "s2", sim::Series(r.decode_over_time.size(), 0.0), false};
    PlotSeries mean{"all machines", "s1", sim::Series(r.decode_over_time.size(), 0.0), true};
    double capacity = 0;
    for (const sim::NodeRecord& node : r.nodes) {
        capacity += node.kv_capacity;
        for (std::size_t b = 0; b < mean.values.size(); ++b) {
            fullest.values[b] = std::max(fullest.values[b], node.kv_over_time.at(b));
            mean.values[b] += node.kv_over_time.at(b) * node.kv_capacity;
        }
    }
    if (capacity <= 0) return "";
    for (double& v : mean.values) v /= capacity;
    const std::vector<PlotSeries> series = {fullest, mean};
    return card("KV memory in use", html::legend(series),
                html::time_plot(r, {"kv", 1200, 190, series, format_percent, 1, 1}, data));
}

}  // namespace

std::string html_report(const sim::Recording& recording, const ReportInfo& info) {
    PageData data = PageData::object();
    std::string body = "<header><div><h1>" + markup(info.title) +
                       "</h1><button type=\"button\" id=\"theme\" title=\"light or dark\" "
                       "aria-label=\"light or dark\">◐</button></div>\n" +
                       facts(recording, info) + "</header>\n<main>\n";
    body += tiles(recording, info);
    body += throughput(recording, data);
    body += latencies(recording, data);
    body += html::nodes_section(recording, data);
    body += html::links_section(recording, data);
    body += kv_memory(recording, data);
    body += html::timelines_section(recording, data);
    body += "</main>\n<div id=\"tip\" role=\"status\"></div>\n";
    std::string json = data.dump(-1, ' ', false, PageData::error_handler_t::replace);
    // Nothing in the data may look like a tag to the parser of the page.
    for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
        json.replace(at, 1, "\\u003c");
    }
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
           "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
           markup(info.title) + "</title>\n<style>\n" + html::style_sheet() +
           "</style>\n</head>\n<body>\n" + body + "<script type=\"application/json\" id=\"data\">" +
           json + "</script>\n<script>\n" + html::script() + "</script>\n</body>\n</html>\n";
}

}  // namespace helix::view
