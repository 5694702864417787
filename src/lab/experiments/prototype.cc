#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lab/experiments/experiments.h"
#include "lab/experiments/published.h"

// Predictions of the published prototype on 24 real machines, ours beside the published
// simulator's.

namespace helix::lab {
namespace {

constexpr const char* kCluster = "single24";
// The measured runs: 300 s, of which the first 60 s do not count; online 330 s.
constexpr double kOffline_s = 240;
constexpr double kOnline_s = 270;
constexpr double kMeanTokens = 995.5;  // of a request, prompt and output

ExperimentCase offline(const MeasuredSystem& system, ExperimentPolicy policy) {
    return {.cluster = kCluster,
            .model = system.model,
            .method = system.method,
            .policy = policy,
            .populations = system.populations,
            .duration_s = kOffline_s};
}

ExperimentCase online(const MeasuredSystem& system, ExperimentPolicy policy) {
    ExperimentCase c = offline(system, policy);
    c.online = true;
    c.online_tokens_per_s = system.online_prompts_per_s * kMeanTokens;
    c.populations.clear();
    c.duration_s = kOnline_s;
    return c;
}

std::string mean_cell(double theirs, double ours) {
    return fmt::format("{} / {}", cell(theirs, 2), cell(ours, 2));
}

struct Errors {
    int nearer = 0;
    int n = 0;
    double ours = 0;
    double theirs = 0;

    void add(double our_rate, double their_rate, double measured) {
        if (!(our_rate > 0) || !(their_rate > 0)) return;
        const double our_error = std::abs(our_rate / measured - 1);
        const double their_error = std::abs(their_rate / measured - 1);
        ours += our_error;
        theirs += their_error;
        nearer += our_error < their_error ? 1 : 0;
        ++n;
    }
    std::string sentence() const {
        return fmt::format(
            "Mean error without sign: the published simulator {:.1f} %, ours {:.1f} %; ours is the "
            "nearer one in {} of {}.",
            theirs / n * 100, ours / n * 100, nearer, n);
    }
};

Errors write_offline(const ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Decode tokens/s offline against the real system";
    table.head = {"model",
                  "method",
                  "measured",
                  "published simulator",
                  "error",
                  "its rules, the measured window",
                  "error",
                  "ours, as the prototype",
                  "error",
                  "TTFT s (measured / ours)",
                  "TPOT s (measured / ours)"};
    Errors errors;
    view::BarChart chart{"Predictions of the real system, offline", "decode tokens/s", {}, {}};
    chart.series = {{"measured", {}}, {"published simulator", {}}, {"ours", {}}};
    for (const MeasuredSystem& system : measured_systems()) {
        const auto& same = session.result(offline(system, ExperimentPolicy::published));
        const auto& ours = session.result(offline(system, ExperimentPolicy::prototype));
        const PublishedMethod* known = find_published(kCluster, system.model, system.method);
        const double simulated = known == nullptr ? 0 : known->offline.decode_tokens_per_s;
        const double measured = system.offline.decode_tokens_per_s;
        const double rate = ours.report.decode_tokens_per_s;
        table.rows.push_back({model_title(system.model), method_cell(system.method, ours),
                              cell(measured, 1), cell(simulated, 1),
                              error_cell(simulated, measured),
                              cell(same.report.decode_tokens_per_s, 1),
                              error_cell(same.report.decode_tokens_per_s, measured), cell(rate, 1),
                              error_cell(rate, measured),
                              mean_cell(system.offline.ttft_mean_s, ours.report.ttft.mean),
                              mean_cell(system.offline.tpot_mean_s, ours.report.tpot.mean)});
        errors.add(rate, simulated, measured);
        chart.groups.push_back(
            fmt::format("{} {}", system.model == std::string("llama2-70b") ? "70B" : "30B",
                        method_title(system.method)));
        chart.series[0].values.push_back(measured);
        chart.series[1].values.push_back(simulated);
        chart.series[2].values.push_back(rate);
    }
    page.table(std::move(table));
    page.bars("prototype", chart);
    return errors;
}

struct PartRow {
    const char* model;
    const char* method;
    std::size_t part;
    const char* machines;
    double measured;
};

// Where a method splits the cluster, the real system's parts were published too.
void write_parts(const ExperimentSession& session, ExperimentPage& page) {
    constexpr const char* k30b = "llama1-30b";
    const std::vector<PartRow> rows = {
        {k70b, "separate", 0, "4 A100", 68.7},  {k70b, "separate", 1, "8 L4", 37.9},
        {k70b, "separate", 2, "12 T4", 3.4},    {k30b, "helix", 0, "4 A100", 198.9},
        {k30b, "helix", 1, "8 L4", 64.8},       {k30b, "helix", 2, "12 T4", 57.5},
        {k30b, "separate", 0, "4 A100", 187.3}, {k30b, "separate", 1, "8 L4", 58.6},
        {k30b, "separate", 2, "12 T4", 49.2},
    };
    ExperimentTable table;
    table.title = "The parts of methods that split the cluster";
    table.head = {"model",
                  "method",
                  "machines",
                  "measured",
                  "published rules",
                  "error",
                  "ours, as the prototype",
                  "error"};
    for (const PartRow& row : rows) {
        const auto found = std::find_if(measured_systems().begin(), measured_systems().end(),
                                        [&](const MeasuredSystem& system) {
                                            return system.model == std::string_view(row.model) &&
                                                   system.method == std::string_view(row.method);
                                        });
        if (found == measured_systems().end()) continue;
        const MeasuredSystem& system = *found;
        const auto& same = session.result(offline(system, ExperimentPolicy::published)).parts;
        const auto& ours = session.result(offline(system, ExperimentPolicy::prototype)).parts;
        if (row.part >= same.size() || row.part >= ours.size()) continue;
        const double theirs = same[row.part].decode_tokens_per_s;
        const double rate = ours[row.part].decode_tokens_per_s;
        table.rows.push_back({model_title(row.model), method_title(row.method), row.machines,
                              cell(row.measured, 1), cell(theirs, 1),
                              error_cell(theirs, row.measured), cell(rate, 1),
                              error_cell(rate, row.measured)});
    }
    if (!table.rows.empty()) page.table(std::move(table));
}

void write_online(const ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "Online, at the published rates";
    table.head = {"model",
                  "method",
                  "measured decode tok/s",
                  "published simulator",
                  "error",
                  "ours, as the prototype",
                  "error",
                  "TTFT s (measured / ours)",
                  "TPOT s (measured / ours)"};
    for (const MeasuredSystem& system : measured_systems()) {
        const auto& ours = session.result(online(system, ExperimentPolicy::prototype));
        const PublishedMethod* known = find_published(kCluster, system.model, system.method);
        const double simulated = known == nullptr ? 0 : known->online.decode_tokens_per_s;
        const double measured = system.online.decode_tokens_per_s;
        const double rate = ours.report.decode_tokens_per_s;
        table.rows.push_back({model_title(system.model), method_cell(system.method, ours),
                              cell(measured, 1), cell(simulated, 1),
                              error_cell(simulated, measured), cell(rate, 1),
                              error_cell(rate, measured),
                              mean_cell(system.online.ttft_mean_s, ours.report.ttft.mean),
                              mean_cell(system.online.tpot_mean_s, ours.report.tpot.mean)});
    }
    page.table(std::move(table));
}

base::Status write_prototype(ExperimentSession& session, ExperimentPage& page) {
    page.text(
        "The prototype's workers do not run as the published simulator has it. What we changed for "
        "this prediction, all of it in `src/sim/published/reference_passes.cc`: a worker takes in "
        "what has "
        "arrived, runs the prompts through all of its layers (up to 4,096 tokens, vLLM's limit), "
        "hands them on, and only then runs the decodes, where the simulator mixes both in one "
        "batch; results are copied off the device, at the rates that the simulator has for the way "
        "in; and no layer takes less than 1.5 ms, since each is a step of vLLM's engine, prepared "
        "in Python. That is the only constant chosen to fit: 0, 1.5 and 2 ms were tried against "
        "the "
        "six cases below, so these are no blind predictions, and 1.5 ms makes one figure agree "
        "(SP's "
        "four A100s, 30B: 187.3 tok/s). The device needs 0.9 ms there, 4 to 10 ms on L4 and T4, so "
        "that elsewhere it hardly matters. Windows are the measured runs': 240 s after 60 s. "
        "Layouts, profiles and "
        "schedulers are the published ones, and so are the loads, but for SP, where the measured "
        "rates and latencies show others (Little's law: 30 requests in each pipeline on 30B where "
        "the published simulation has 30, 25 and 25; two on the T4s on 70B, not three).");
    const Errors errors = write_offline(session, page);
    if (errors.n > 0) page.text(errors.sentence());
    write_parts(session, page);
    page.text(
        "What is left. *SP, 70B*: its A100s were out of KV memory. By Little's law the measured "
        "figures mean 29 requests there (68.7 tok/s x 0.284 s, and 0.3 prompts/s x 31.7 s of "
        "waiting "
        "for a first token) where 18 fit, which is what both simulations keep; the median TPOT, "
        "0.21 "
        "s, is about the one predicted (0.18 s), and the mean is far above it: requests swapped "
        "out "
        "of memory, which neither simulation has. *Helix and Swarm, 70B*: a node there decodes 9 "
        "to "
        "25 sequences of a thousand tokens at once; the tables have no context, and attention over "
        "it is what we take most of the difference to be. *L4, 30B*: prompts were faster in the "
        "real runs (TTFT 1.0 s, predicted 1.2 to 1.4 s), so that table is likely pessimistic.");
    write_online(session, page);
    page.text(
        "Offered are the published rates, but for Helix and Swarm on 70B: 338 and 167 prompts came "
        "back within the 270 s that count, 1.25 and 0.62 a second, where the published simulations "
        "have 0.70 and 0.35. Even so these two had more requests inside than such a load leaves "
        "after a start from empty (148.3 tok/s x 2.02 s: 300 on average for Helix), and what came "
        "before the window is not published: their latencies can be compared, their tok/s cannot. "
        "Two runs of the artifact by one command gave 148.3 and 139.3 tok/s (Helix, 70B).");
    return base::Ok{};
}

}  // namespace

Experiment prototype_experiment() {
    return {"prototype", "Against the real system",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round > 0) return base::Ok{};
                for (const MeasuredSystem& system : measured_systems()) {
                    session.want(offline(system, ExperimentPolicy::published));
                    session.want(offline(system, ExperimentPolicy::prototype));
                    session.want(online(system, ExperimentPolicy::prototype));
                }
                return base::Ok{};
            },
            write_prototype};
}

}  // namespace helix::lab
