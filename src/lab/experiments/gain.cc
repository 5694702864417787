#include <fmt/format.h>

#include "lab/experiments/experiments.h"
#include "lab/experiments/published.h"

// Our placement and policy together against the published system, and the published methods against
// each other.

namespace helix::lab {
namespace {

constexpr double kShareOfPeak = 0.75;

struct GainRow {
    const char* cluster;
    double published;       // decode tokens/s of the published run, offline
    double published_ttft;  // s, mean; of the public simulator run again
    double wanted;          // ratio aimed at
};

const std::vector<GainRow>& gain_rows() {
    static const std::vector<GainRow> rows = {{"single24", 252.1, 2.96, 1.65},
                                              {"distributed24", 98.0, 8.96, 2.4},
                                              {"highhet42", 645.6, 2.13, 1.5}};
    return rows;
}

ExperimentCase system_of(const GainRow& row, bool ours) {
    return {.cluster = row.cluster,
            .model = k70b,
            .method = ours ? "own" : "helix",
            .policy = ours ? ExperimentPolicy::own : ExperimentPolicy::published};
}

ExperimentCase peak_of(const GainRow& row, bool ours) {
    ExperimentCase c = system_of(row, ours);
    c.find_peak = true;
    return c;
}

ExperimentCase online_at(const GainRow& row, bool ours, double tokens_per_s) {
    ExperimentCase c = system_of(row, ours);
    c.online = true;
    c.online_tokens_per_s = tokens_per_s;
    return c;
}

base::Status ask_gain(ExperimentSession& session, int round) {
    for (const GainRow& row : gain_rows()) {
        if (round == 0) {
            for (const bool ours : {false, true}) {
                session.want(system_of(row, ours));
                session.want(peak_of(row, ours));
            }
            continue;
        }
        const double theirs = session.result(peak_of(row, false)).offered_tokens_per_s;
        const double own = session.result(peak_of(row, true)).offered_tokens_per_s;
        if (theirs > 0) {
            session.want(online_at(row, false, kShareOfPeak * theirs));
            session.want(online_at(row, true, kShareOfPeak * theirs));
        }
        if (own > 0) session.want(online_at(row, true, kShareOfPeak * own));
    }
    return base::Ok{};
}

void add_online_row(const ExperimentSession& session, ExperimentTable& table, const GainRow& row,
                    bool ours, double offered, const char* load) {
    if (!(offered > 0)) return;
    const ExperimentResult& result = session.result(online_at(row, ours, offered));
    const sim::SimReport& report = result.report;
    table.rows.push_back(
        {row.cluster,
         ours ? "our plan, our policy" : method_cell("helix", result) + ", published policy", load,
         cell(offered, 0), cell(report.decode_tokens_per_s, 1), latency_cell(report.ttft),
         latency_cell(report.tpot),
         result.error.empty() ? std::to_string(report.rejected) : result.error});
}

base::Status write_gain(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable offline;
    offline.title = "LLaMA 70B, offline: our placement and policy against the published Helix run";
    offline.head = {"cluster",  "published tok/s",           "TTFT s", "ours",    "ratio",
                    "aimed at", "TTFT s (mean / p50 / p95)", "TPOT s", "refused", "stages"};
    ExperimentTable online;
    online.title = "LLaMA 70B, online at 75 % of the measured peak";
    online.head = {"cluster",       "system",       "75 % of",
                   "offered tok/s", "decode tok/s", "TTFT s (mean / p50 / p95)",
                   "TPOT s",        "refused"};
    view::BarChart chart{"Placement and policy together, offline", "decode tokens/s", {}, {}};
    chart.series = {{"published Helix", {}}, {"our plan, our policy", {}}};
    bool planned = false;
    for (const GainRow& row : gain_rows()) {
        const ExperimentResult& ours = session.result(system_of(row, true));
        const sim::SimReport& report = ours.report;
        offline.rows.push_back({row.cluster, cell(row.published, 1), cell(row.published_ttft, 2),
                                cell(report.decode_tokens_per_s, 1),
                                ratio_cell(report.decode_tokens_per_s, row.published),
                                cell(row.wanted, 2), latency_cell(report.ttft),
                                latency_cell(report.tpot),
                                ours.error.empty() ? std::to_string(report.rejected) : ours.error,
                                cell(report.mean_depth, 1)});
        chart.groups.emplace_back(row.cluster);
        chart.series[0].values.push_back(row.published);
        chart.series[1].values.push_back(report.decode_tokens_per_s);
        const ExperimentResult& their_peak = session.result(peak_of(row, false));
        const ExperimentResult& our_peak = session.result(peak_of(row, true));
        for (const ExperimentResult* peak : {&their_peak, &our_peak}) {
            if (!peak->error.empty()) {
                page.text(fmt::format("{}: no peak was found: {}.", row.cluster, peak->error));
            }
        }
        planned = planned || their_peak.planned;
        const double theirs = kShareOfPeak * their_peak.offered_tokens_per_s;
        add_online_row(session, online, row, false, theirs, "its own peak");
        add_online_row(session, online, row, true, theirs, "the published system's");
        add_online_row(session, online, row, true, kShareOfPeak * our_peak.offered_tokens_per_s,
                       "its own peak");
    }
    page.table(std::move(offline));
    page.bars("gain", chart);
    page.table(std::move(online));
    page.text(
        "Offered tok/s count prompt and output tokens. A peak is the highest even rate of which 97 "
        "% is served. The rows of one cluster at the published system's peak have equal arrivals. "
        "Online runs start from an empty cluster and count 600 s after 60 s.");
    if (planned) page.text(kPlannedNote);
    return base::Ok{};
}

struct RatioPlace {
    const char* cluster;
    const char* model;
};
constexpr RatioPlace kPlaces[] = {{"single24", "llama2-70b"},
                                  {"single24", "llama1-30b"},
                                  {"distributed24", "llama2-70b"},
                                  {"distributed24", "llama1-30b"},
                                  {"highhet42", "llama2-70b"}};

ExperimentCase ratio_case(const PublishedMethod& known, const char* method, bool online,
                          ExperimentPolicy policy) {
    ExperimentCase c = {.cluster = known.cluster,
                        .model = known.model,
                        .method = method,
                        .policy = policy,
                        .online = online};
    if (online) {
        c.warmup_s = 0;
        c.duration_s = 1800;
    }
    return c;
}

bool compared(const PublishedMethod& known, const RatioPlace& place, bool online) {
    const double rate =
        online ? known.online.decode_tokens_per_s : known.offline.decode_tokens_per_s;
    return known.cluster == std::string_view(place.cluster) &&
           known.model == std::string_view(place.model) &&
           known.method != std::string_view("helix") && rate > 0;
}

base::Status ask_ratios(ExperimentSession& session, int round) {
    if (round > 0) return base::Ok{};
    for (const RatioPlace& place : kPlaces) {
        for (const PublishedMethod& known : published_methods()) {
            for (const bool online : {false, true}) {
                if (!compared(known, place, online)) continue;
                for (const char* method : {"helix", known.method}) {
                    session.want(ratio_case(known, method, online, ExperimentPolicy::published));
                }
            }
        }
    }
    return base::Ok{};
}

base::Status write_ratios(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Decode tokens/s, Helix over each method, same layouts and loads";
    table.head = {"cluster", "model", "load", "Helix over", "published", "ours", "order"};
    int agree = 0;
    int n = 0;
    bool planned = false;
    for (const RatioPlace& place : kPlaces) {
        for (const bool online : {false, true}) {
            for (const PublishedMethod& known : published_methods()) {
                if (!compared(known, place, online)) continue;
                const PublishedMethod* helix = find_published(place.cluster, place.model, "helix");
                const auto rate = [&](const PublishedMethod& method) {
                    return online ? method.online.decode_tokens_per_s
                                  : method.offline.decode_tokens_per_s;
                };
                const auto& first =
                    session.result(ratio_case(known, "helix", online, ExperimentPolicy::published));
                const auto& second = session.result(
                    ratio_case(known, known.method, online, ExperimentPolicy::published));
                if (!first.error.empty() || !second.error.empty()) {
                    page.text(fmt::format("{} {}, Helix over {}: {}.", place.cluster,
                                          model_title(place.model), method_title(known.method),
                                          first.error.empty() ? second.error : first.error));
                    continue;
                }
                planned = planned || first.planned || second.planned;
                const double published = rate(*helix) / rate(known);
                const double ours =
                    first.report.decode_tokens_per_s / second.report.decode_tokens_per_s;
                const bool same = (published > 1) == (ours > 1);
                agree += same ? 1 : 0;
                ++n;
                table.rows.push_back(
                    {place.cluster, model_title(place.model), online ? "online" : "offline",
                     method_cell(known.method, second) +
                         (first.planned ? " (Helix" + stand_in(true) + ")" : ""),
                     cell(published, 2), cell(ours, 2), same ? "agrees" : "DIFFERS"});
            }
        }
    }
    page.table(std::move(table));
    page.text(fmt::format("The order agrees in {} of {}.", agree, n));
    if (planned) page.text(kPlannedNote);
    return base::Ok{};
}

}  // namespace

Experiment gain_experiment() {
    return {"gain", "Placement and policy together", ask_gain, write_gain};
}

Experiment ratio_experiment() {
    return {"ratios", "Methods against each other", ask_ratios, write_ratios};
}

}  // namespace helix::lab
