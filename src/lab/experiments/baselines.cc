#include <fmt/format.h>

#include <array>

#include "lab/experiments/experiments.h"
#include "lab/experiments/published.h"

// vLLM's order of work and Llumnix' dispatch and moves in place of ours, on one cluster and layout.

namespace helix::lab {
namespace {

struct Baseline {
    const char* name;
    bool vllm;
    bool llumnix;
};
constexpr std::array<Baseline, 4> kBaselines = {{{"ours", false, false},
                                                 {"vLLM's order of work", true, false},
                                                 {"Llumnix' dispatch and moves", false, true},
                                                 {"both", true, true}}};

ExperimentCase baseline_case(const Baseline& baseline, bool online) {
    return {.cluster = "single24",
            .model = k70b,
            .method = "helix",
            .policy = ExperimentPolicy::own,
            .online = online,
            .duration_s = 600,
            .as_vllm = baseline.vllm,
            .as_llumnix = baseline.llumnix};
}

base::Status write_baselines(ExperimentSession& session, ExperimentPage& page) {
    page.text(
        "What `helix simulate --batching vllm` and `--scheduler llumnix --balance llumnix` run, on "
        "the layout of Helix, by the coordinator and the workers of `helix serve`. vLLM (0.5, "
        "without chunked prefill): the first stage runs whole prompts before decodes and never "
        "both in one batch, up to the model's context in tokens and 256 sequences for each batch "
        "in flight; later stages run rows in the order in which they come, and only KV memory "
        "bounds how many prompts are inside. Llumnix: requests go to the pipeline whose fullest "
        "machine is the freest; from machines that are less free "
        "than three pages for each sequence they move to those that are more. Placement, "
        "pipelines, admission by the KV memory that requests are expected to need, and who gives "
        "way when it is full (the last to arrive, computed again) are ours in all rows. Online at "
        "the published rate, 600 s after 60 s.");
    ExperimentTable table;
    table.title = "single24, LLaMA 70B, the same layout under other policies";
    table.head = {"load",
                  "policy",
                  "decode tok/s",
                  "of ours",
                  "TTFT s (mean / p50 / p95)",
                  "TPOT s (mean / p50 / p95)",
                  "preempted",
                  "moves"};
    bool planned = false;
    for (const bool online : {false, true}) {
        const ExperimentResult& ours = session.result(baseline_case(kBaselines.front(), online));
        for (const Baseline& baseline : kBaselines) {
            const ExperimentResult& result = session.result(baseline_case(baseline, online));
            if (!result.error.empty()) {
                page.text(fmt::format("{}, {}: {}.", online ? "Online" : "Offline", baseline.name,
                                      result.error));
                continue;
            }
            planned = planned || result.planned;
            const sim::SimReport& report = result.report;
            table.rows.push_back(
                {online ? "online" : "offline", baseline.name, cell(report.decode_tokens_per_s, 2),
                 ratio_cell(report.decode_tokens_per_s, ours.report.decode_tokens_per_s),
                 latency_cell(report.ttft), latency_cell(report.tpot),
                 fmt::format("{}", report.preempted), fmt::format("{}", report.migrated)});
        }
    }
    page.table(std::move(table));
    if (planned) page.text(kPlannedNote);
    return base::Ok{};
}

}  // namespace

Experiment baselines_experiment() {
    return {"baselines", "vLLM and Llumnix as published",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round > 0) return base::Ok{};
                for (const Baseline& baseline : kBaselines) {
                    session.want(baseline_case(baseline, false));
                    session.want(baseline_case(baseline, true));
                }
                return base::Ok{};
            },
            write_baselines};
}

}  // namespace helix::lab
