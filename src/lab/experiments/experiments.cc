#include "lab/experiments/experiments.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <ctime>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "base/processor.h"
#include "sim/report/report.h"

namespace helix::lab {
namespace {

std::string machine_kind() {
    const std::string name = base::processor_name();
    return name.empty() ? "an unknown processor" : name;
}

double cpu_s() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

constexpr ExperimentTopic kTopics[] = {ExperimentTopic::published, ExperimentTopic::live,
                                       ExperimentTopic::disaggregation};

const char* page_name(ExperimentTopic topic) {
    switch (topic) {
        case ExperimentTopic::published:
            return "experiments";
        case ExperimentTopic::live:
            return "experiments-live";
        case ExperimentTopic::disaggregation:
            return "experiments-disaggregation";
    }
    return "";
}

void write_head(const ExperimentRun& run, const ExperimentSession& session, ExperimentPage& page) {
    page.text("# Experiments");
    page.text(fmt::format(
        "The evaluation of Helix (ASPLOS'25), run again. Every figure but those called published "
        "or measured is what a run printed by `{} --output docs` gave. Requests that move, "
        "priorities and auto-scaling have [a page of their own](experiments-live.md), and so have "
        "[machines for prompts](experiments-disaggregation.md).",
        run.command));
    page.text(
        session.data().made_up()
            ? "Without the published inputs: clusters of the same machines and links, speeds from "
              "datasheets, made-up conversations. Layouts are our planner's, by the method that "
              "each row names; published figures are shown for their order, not their size."
            : "The published clusters, layouts, profiles and traces are in `data/paper`. Tok/s are "
              "decode "
              "tokens/s: the tokens after a request's first. Offline: saturated, 600 s after 60 s. "
              "Online: the published rates and arrivals, 1,800 s from an empty cluster. TTFT: from "
              "arrival to the first token. TPOT: from one token to the next. Published: the "
              "paper's "
              "artifact; Petals on single24, 191.1, is its simulator run again.");
    if (run.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
}

void write_live_head(const ExperimentRun& run, ExperimentPage& page) {
    page.text("# Experiments: requests that move");
    page.text(fmt::format(
        "What Llumnix (OSDI'24) claims for whole-model instances, tried with Helix' own policy in "
        "virtual time; the simulator runs the coordinator and the workers that `helix serve` "
        "runs. Every figure is what `{} --output docs` gave. Back to the [published "
        "evaluation](experiments.md).",
        run.command));
    if (run.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
}

void write_disaggregation_head(const ExperimentRun& run, ExperimentPage& page) {
    page.text("# Experiments: prefill and decode on different machines");
    page.text(fmt::format(
        "Every figure is what `{} --output docs` gave, in virtual time; the simulator runs the "
        "coordinator and the workers that `helix serve` runs. [What it means]"
        "(disaggregation.md). Back to the [published evaluation](experiments.md).",
        run.command));
    if (run.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
}

nlohmann::ordered_json as_json(const ExperimentSession& session,
                               const std::vector<ExperimentPage>& pages) {
    using Json = nlohmann::ordered_json;
    Json runs = Json::array();
    for (const auto& [key, result] : session.results()) {
        Json run = {{"case", key}, {"planned", result.planned}};
        if (!result.error.empty()) {
            run["error"] = result.error;
        } else {
            run["report"] = Json::parse(sim::report_json(result.report));
        }
        runs.push_back(std::move(run));
    }
    Json tables = Json::array();
    for (const ExperimentPage& page : pages) {
        for (const ExperimentTable& table : page.tables()) {
            tables.push_back({{"title", table.title}, {"head", table.head}, {"rows", table.rows}});
        }
    }
    return {{"tables", tables}, {"runs", runs}};
}

// The page of one topic; these are all of it that was asked for.
base::Result<ExperimentPage> make_page(const ExperimentRun& run, ExperimentTopic topic,
                                       const std::vector<const Experiment*>& experiments,
                                       ExperimentSession& session) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu_began_s = cpu_s();
    const bool published = topic == ExperimentTopic::published;
    ExperimentPage page(page_name(topic));
    if (published) write_head(run, session, page);
    if (topic == ExperimentTopic::live) write_live_head(run, page);
    if (topic == ExperimentTopic::disaggregation) write_disaggregation_head(run, page);
    for (int round = 0; round < kExperimentRounds; ++round) {
        for (const Experiment* experiment : experiments) {
            TRY_VOID(experiment->ask(session, round));
        }
        if (published) TRY_VOID(session.run_wanted(run.name));
    }
    for (const Experiment* experiment : experiments) {
        page.heading(fmt::format("{} (`{}`)", experiment->shows, experiment->name));
        TRY_VOID(experiment->write(session, page));
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    page.heading("How long it takes");
    const std::string runs =
        published ? fmt::format("{} runs in ", session.results().size()) : std::string();
    page.text(fmt::format("{}{:.0f} CPU seconds, {:.0f} s on {} threads of {}.", runs,
                          cpu_s() - cpu_began_s, wall.count(),
                          run.options.threads > 0 ? run.options.threads : base::usable_threads(),
                          machine_kind()));
    return page;
}

std::vector<Experiment> published_experiments() {
    return {
        machines_experiment(),
        lengths_experiment(),
        cluster_experiment("single-cluster", "Single cluster", "single24",
                           {"llama2-70b", "llama1-30b"}),
        cluster_experiment("distributed", "Clusters in three regions", "distributed24",
                           {"llama2-70b", "llama1-30b"}),
        cluster_experiment("high-heterogeneity", "Seven types of machines", "highhet42",
                           {"llama2-70b"}),
        warmup_experiment(),
        placement_experiment(),
        scheduling_experiment(),
        ablation_experiment(),
        prototype_experiment(),
        gain_experiment(),
        ratio_experiment(),
        baselines_experiment(),
    };
}

}  // namespace

const std::vector<Experiment>& all_experiments() {
    static const std::vector<Experiment> all = [] {
        std::vector<Experiment> experiments = published_experiments();
        for (Experiment& experiment : live_experiments()) {
            experiments.push_back(std::move(experiment));
        }
        experiments.push_back(disaggregation_experiment());
        return experiments;
    }();
    return all;
}

const char* topic_name(ExperimentTopic topic) {
    switch (topic) {
        case ExperimentTopic::published:
            return "published";
        case ExperimentTopic::live:
            return "live";
        case ExperimentTopic::disaggregation:
            return "disaggregation";
    }
    return "";
}

std::vector<const Experiment*> find_experiments(const std::string& name) {
    std::vector<const Experiment*> out;
    for (const Experiment& experiment : all_experiments()) {
        const bool in_topic = name == topic_name(experiment.topic);
        if (name == "all" || in_topic || name == experiment.name) out.push_back(&experiment);
    }
    return out;
}

base::Result<std::string> run_experiments(ExperimentRun run) {
    std::map<ExperimentTopic, std::vector<const Experiment*>> by_topic;
    for (const Experiment* one : run.experiments) by_topic[one->topic].push_back(one);
    ExperimentSession session(std::move(run.data), run.options);
    std::vector<ExperimentPage> pages;
    for (const ExperimentTopic topic : kTopics) {
        if (!by_topic.contains(topic)) continue;
        TRY(ExperimentPage page, make_page(run, topic, by_topic.at(topic), session));
        if (!run.output.empty()) TRY_VOID(page.write(run.output));
        pages.push_back(std::move(page));
    }
    return as_json(session, pages).dump(1);
}

}  // namespace helix::lab
