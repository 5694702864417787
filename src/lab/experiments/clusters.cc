#include <fmt/format.h>

#include <algorithm>

#include "lab/experiments/experiments.h"

// The paper's end-to-end figures (6.3 to 6.5): every method on one cluster, offline and online.

namespace helix::lab {
namespace {

constexpr double kOnlineDuration_s = 1800;  // from an empty cluster

struct Place {
    std::string cluster;
    std::string model;
};

std::vector<std::string> methods_of(const Place& place) {
    std::vector<std::string> methods;
    for (const PublishedMethod& known : published_methods()) {
        if (known.cluster == place.cluster && known.model == place.model) {
            methods.emplace_back(known.method);
        }
    }
    methods.emplace_back("own");
    return methods;
}

bool runs_online(const std::string& method) {
    return method != "petals";
}

// Under our policy only what is compared: the published winner's layout, and our own.
bool runs_online_our_way(const std::string& method) {
    return method == "helix" || method == "own";
}

ExperimentCase offline(const Place& place, const std::string& method, ExperimentPolicy policy) {
    return {.cluster = place.cluster, .model = place.model, .method = method, .policy = policy};
}

ExperimentCase online(const Place& place, const std::string& method, ExperimentPolicy policy) {
    ExperimentCase c = offline(place, method, policy);
    c.online = true;
    c.warmup_s = 0;
    c.duration_s = kOnlineDuration_s;
    return c;
}

struct OnlineRun {
    std::string method;
    ExperimentPolicy policy;
    const char* policy_name() const {
        return policy == ExperimentPolicy::own ? "ours" : "published";
    }
};

std::vector<OnlineRun> online_runs(const Place& place) {
    std::vector<OnlineRun> runs;
    for (const std::string& method : methods_of(place)) {
        if (!runs_online(method)) continue;
        runs.push_back({method, ExperimentPolicy::published});
        if (runs_online_our_way(method)) runs.push_back({method, ExperimentPolicy::own});
    }
    return runs;
}

void ask_place(ExperimentSession& session, const Place& place) {
    for (const std::string& method : methods_of(place)) {
        session.want(offline(place, method, ExperimentPolicy::published));
        session.want(offline(place, method, ExperimentPolicy::own));
    }
    for (const OnlineRun& run : online_runs(place)) {
        session.want(online(place, run.method, run.policy));
    }
}

PublishedRun published_run(const Place& place, const std::string& method, bool online) {
    const PublishedMethod* known = find_published(place.cluster, place.model, method);
    if (known == nullptr) return {};
    return online ? known->online : known->offline;
}

std::string rate_cell(const ExperimentResult& result, int digits) {
    return result.error.empty() ? cell(result.report.decode_tokens_per_s, digits) : "-";
}

void note_errors(ExperimentPage& page, const std::string& what, const ExperimentResult& result) {
    if (!result.error.empty()) page.text(fmt::format("{} did not run: {}.", what, result.error));
}

bool write_offline(const ExperimentSession& session, ExperimentPage& page, const Place& place) {
    ExperimentTable table;
    table.title = fmt::format("{}, {}, offline", place.cluster, model_title(place.model));
    table.head = {"method",
                  "published tok/s",
                  "ours, published policy",
                  "ours / published",
                  "TTFT s (mean / p50 / p95)",
                  "TPOT s",
                  "dropped",
                  "same layout, our policy",
                  "gain",
                  "TTFT s",
                  "TPOT s",
                  "refused"};
    view::BarChart chart;
    chart.title = table.title;
    chart.unit = "decode tokens/s";
    chart.series = {{"published", {}}, {"ours, published policy", {}}, {"our policy", {}}};
    bool planned = false;
    for (const std::string& method : methods_of(place)) {
        const auto& theirs = session.result(offline(place, method, ExperimentPolicy::published));
        const auto& ours = session.result(offline(place, method, ExperimentPolicy::own));
        const PublishedRun published = published_run(place, method, false);
        const double theirs_rate = theirs.report.decode_tokens_per_s;
        const double ours_rate = ours.report.decode_tokens_per_s;
        planned = planned || (theirs.planned && method != "own");
        table.rows.push_back(
            {method_cell(method, theirs), cell(published.decode_tokens_per_s, 1),
             rate_cell(theirs, 2), ratio_cell(theirs_rate, published.decode_tokens_per_s),
             latency_cell(theirs.report.ttft), latency_cell(theirs.report.tpot),
             std::to_string(theirs.report.rejected), rate_cell(ours, 2),
             ratio_cell(ours_rate, theirs_rate), latency_cell(ours.report.ttft),
             latency_cell(ours.report.tpot), std::to_string(ours.report.rejected)});
        chart.groups.push_back(method_label(method, theirs));
        chart.series[0].values.push_back(
            published.decode_tokens_per_s > 0 ? published.decode_tokens_per_s : -1);
        chart.series[1].values.push_back(theirs.error.empty() ? theirs_rate : -1);
        chart.series[2].values.push_back(ours.error.empty() ? ours_rate : -1);
    }
    page.table(std::move(table));
    for (const std::string& method : methods_of(place)) {
        for (const ExperimentPolicy policy : {ExperimentPolicy::published, ExperimentPolicy::own}) {
            const ExperimentCase c = offline(place, method, policy);
            note_errors(page, c.title(), session.result(c));
        }
    }
    page.bars(fmt::format("{}-{}-offline", place.cluster, place.model), chart);
    return planned;
}

void write_online(const ExperimentSession& session, ExperimentPage& page, const Place& place) {
    ExperimentTable table;
    table.title = fmt::format("{}, {}, online at the published rates", place.cluster,
                              model_title(place.model));
    table.head = {"method",
                  "policy",
                  "offered tok/s",
                  "published decode tok/s",
                  "ours",
                  "ratio",
                  "published TTFT p50",
                  "TTFT s (mean / p50 / p95)",
                  "published TPOT p50",
                  "TPOT s"};
    view::ShareChart first;
    first.title = table.title;
    first.unit = "seconds to the first token";
    view::ShareChart next;
    next.title = table.title;
    next.unit = "seconds per token after it";
    for (const OnlineRun& run : online_runs(place)) {
        const bool own = run.policy == ExperimentPolicy::own;
        const ExperimentCase c = online(place, run.method, run.policy);
        const ExperimentResult& result = session.result(c);
        note_errors(page, c.title(), result);
        if (!result.error.empty()) continue;
        const PublishedRun published =
            own ? PublishedRun{} : published_run(place, run.method, true);
        table.rows.push_back(
            {method_cell(run.method, result), run.policy_name(),
             cell(result.offered_tokens_per_s, 0), cell(published.decode_tokens_per_s, 1),
             rate_cell(result, 2),
             ratio_cell(result.report.decode_tokens_per_s, published.decode_tokens_per_s),
             cell(published.ttft_p50_s, 2), latency_cell(result.report.ttft),
             cell(published.tpot_p50_s, 2), latency_cell(result.report.tpot)});
        const std::string name =
            fmt::format("{}{}", method_label(run.method, result), own ? ", our policy" : "");
        first.series.push_back(latency_curve(name, result.report.ttft));
        next.series.push_back(latency_curve(name, result.report.tpot));
    }
    page.table(std::move(table));
    page.shares(fmt::format("{}-{}-ttft", place.cluster, place.model), first);
    page.shares(fmt::format("{}-{}-tpot", place.cluster, place.model), next);
}

// As the paper describes its online runs: what ends in the first seconds does not count.
constexpr double kPaperWarmup_s = 30;
constexpr const char* kClusters[] = {"single24", "distributed24", "highhet42"};

ExperimentCase online_after_warmup(const Place& place, const std::string& method,
                                   ExperimentPolicy policy) {
    ExperimentCase c = online(place, method, policy);
    c.warmup_s = kPaperWarmup_s;
    return c;
}

// What online tables of Helix' own layout and of ours change by, where a run warms up.
base::Status write_warmup(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = fmt::format("LLaMA 70B, online at the published rates, {:.0f} s left out first",
                              kPaperWarmup_s);
    table.head = {"cluster",      "method",
                  "policy",       "decode tok/s from empty",
                  "after warmup", "TTFT s from empty (mean / p50 / p95)",
                  "after warmup", "TPOT s from empty",
                  "after warmup"};
    for (const char* cluster : kClusters) {
        const Place place{cluster, k70b};
        for (const OnlineRun& run : online_runs(place)) {
            const auto& empty = session.result(online(place, run.method, run.policy));
            const auto& warm = session.result(online_after_warmup(place, run.method, run.policy));
            note_errors(page, fmt::format("{}, {}", cluster, method_title(run.method)), warm);
            if (!warm.error.empty()) continue;
            table.rows.push_back({cluster, method_cell(run.method, warm), run.policy_name(),
                                  rate_cell(empty, 2), rate_cell(warm, 2),
                                  latency_cell(empty.report.ttft), latency_cell(warm.report.ttft),
                                  latency_cell(empty.report.tpot), latency_cell(warm.report.tpot)});
        }
    }
    page.table(std::move(table));
    page.text(
        "The published scripts count from an empty cluster; the paper's text leaves a warm-up out. "
        "Both windows are 1,800 s.");
    return base::Ok{};
}

void ask_warmup(ExperimentSession& session) {
    for (const char* cluster : kClusters) {
        const Place place{cluster, k70b};
        for (const OnlineRun& run : online_runs(place)) {
            session.want(online(place, run.method, run.policy));
            session.want(online_after_warmup(place, run.method, run.policy));
        }
    }
}

}  // namespace

Experiment warmup_experiment() {
    return {"warmup", "Online, after a warm-up",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round == 0) ask_warmup(session);
                return base::Ok{};
            },
            write_warmup};
}

Experiment cluster_experiment(const char* name, const char* shows, const char* cluster,
                              std::vector<const char*> models) {
    std::vector<Place> places;
    for (const char* model : models) places.push_back({cluster, model});
    return {
        name, shows,
        [places](ExperimentSession& session, int round) -> base::Status {
            for (const Place& place : places) {
                if (round == 0) ask_place(session, place);
            }
            return base::Ok{};
        },
        [places](ExperimentSession& session, ExperimentPage& page) -> base::Status {
            bool planned = false;
            for (const Place& place : places) {
                planned = write_offline(session, page, place) || planned;
                write_online(session, page, place);
            }
            if (planned) page.text(kPlannedNote);
            if (places.front().cluster == "highhet42") {
                page.text(
                    "SP+ adds a pipeline of V100s and T4s with five layers each; its file names "
                    "eight V100s, the cluster has six: ours has six and then ten T4s.");
            }
            return base::Ok{};
        }};
}

}  // namespace helix::lab
