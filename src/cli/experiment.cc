// helix experiment NAME

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "cli/command.h"
#include "cli/experiment_page.h"
#include "cli/experiment_session.h"
#include "cli/size_option.h"
#include "sim/report/report.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

struct ExperimentArguments {
    std::string name;
    std::string data;
    std::string output;
    std::string plan_budget = "10s";
    std::string solver_budget = "60s";
    int threads = 0;
    bool quick = false;
    bool json = false;
};

constexpr double kQuickShare = 0.1;
constexpr double kQuickBudget_s = 1;

std::string machine_kind() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (!line.starts_with("model name")) continue;
        const std::size_t colon = line.find(':');
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return "an unknown processor";
}

double cpu_s() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

constexpr ExperimentTopic kTopics[] = {ExperimentTopic::published, ExperimentTopic::live,
                                       ExperimentTopic::disaggregation};

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

void list_experiments() {
    for (const Experiment& experiment : all_experiments()) {
        std::fputs(fmt::format("{:<20} {}\n", experiment.name, experiment.shows).c_str(), stdout);
    }
}

base::Result<std::vector<const Experiment*>> chosen(const std::string& name) {
    std::vector<const Experiment*> out;
    std::string known;
    for (const Experiment& experiment : all_experiments()) {
        const bool in_topic = name == topic_name(experiment.topic);
        if (name == "all" || in_topic || name == experiment.name) out.push_back(&experiment);
        known += std::string(experiment.name) + ", ";
    }
    if (out.empty()) {
        return base::invalid(
            fmt::format("experiment: '{}' is none of {}all, published, live, list", name, known));
    }
    return out;
}

std::string command_of(const ExperimentArguments& a) {
    const bool made_up = a.data == ExperimentData::kMadeUp;
    const char* const data = a.data.empty() ? "" : made_up ? " --data made-up" : " --data DATA";
    return fmt::format("helix experiment {}{}{}{}{}", a.name, data, a.quick ? " --quick" : "",
                       a.plan_budget == "10s" ? "" : " --plan-budget " + a.plan_budget,
                       a.solver_budget == "60s" ? "" : " --solver-budget " + a.solver_budget);
}

void write_head(const ExperimentArguments& a, const ExperimentSession& session,
                ExperimentPage& page) {
    page.text("# Experiments");
    page.text(fmt::format(
        "The evaluation of Helix (ASPLOS'25), run again. Every figure but those called published "
        "or measured is what a run printed by `{} --output docs` gave. Requests that move, "
        "priorities and auto-scaling have [a page of their own](experiments-live.md), and so have "
        "[machines for prompts](experiments-disaggregation.md).",
        command_of(a)));
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
    if (a.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
}

void write_live_head(const ExperimentArguments& a, ExperimentPage& page) {
    page.text("# Experiments: requests that move");
    page.text(fmt::format(
        "What Llumnix (OSDI'24) claims for whole-model instances, tried with Helix' own policy in "
        "virtual time; the simulator runs the coordinator and the workers that `helix serve` "
        "runs. Every figure is what `{} --output docs` gave. Back to the [published "
        "evaluation](experiments.md).",
        command_of(a)));
    if (a.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
}

void write_disaggregation_head(const ExperimentArguments& a, ExperimentPage& page) {
    page.text("# Experiments: prefill and decode on different machines");
    page.text(fmt::format(
        "Every figure is what `{} --output docs` gave, in virtual time; the simulator runs the "
        "coordinator and the workers that `helix serve` runs. [What it means]"
        "(disaggregation.md). Back to the [published evaluation](experiments.md).",
        command_of(a)));
    if (a.quick) page.text("**Short windows (`--quick`): figures are not comparable.**");
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
base::Result<ExperimentPage> make_page(const ExperimentArguments& a, ExperimentTopic topic,
                                       const std::vector<const Experiment*>& experiments,
                                       ExperimentSession& session) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu_began_s = cpu_s();
    const bool published = topic == ExperimentTopic::published;
    ExperimentPage page(page_name(topic));
    if (published) write_head(a, session, page);
    if (topic == ExperimentTopic::live) write_live_head(a, page);
    if (topic == ExperimentTopic::disaggregation) write_disaggregation_head(a, page);
    for (int round = 0; round < kExperimentRounds; ++round) {
        for (const Experiment* experiment : experiments) {
            TRY_VOID(experiment->ask(session, round));
        }
        if (published) TRY_VOID(session.run_wanted(a.name));
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
                          a.threads > 0 ? a.threads : base::usable_threads(), machine_kind()));
    return page;
}

base::Result<std::string> data_folder(const ExperimentArguments& a) {
    if (a.data == ExperimentData::kMadeUp && a.output.empty()) {
        return base::invalid("experiment: --data made-up needs --output DIR for its inputs");
    }
    if (!a.data.empty()) return a.data;
    const std::optional<std::string> own = ExperimentData::project_folder();
    if (own) return *own;
    return base::invalid(
        "experiment: the project's data/paper is not above this program; give its folder as "
        "--data DIR, or --data made-up for the same machines by datasheet");
}

base::Status run_experiments(const ExperimentArguments& a) {
    if (a.name == "list") {
        list_experiments();
        return base::Ok{};
    }
    TRY(const std::vector<const Experiment*> experiments, chosen(a.name));
    if (a.output.empty() && !a.json) {
        return base::invalid("experiment: needs --output DIR, where its pages go, or --json");
    }
    const std::string output = a.output.empty() ? "." : a.output;
    ExperimentOptions options;
    TRY(options.plan_budget_s, parse_seconds("--plan-budget", a.plan_budget));
    TRY(options.solver_budget_s, parse_seconds("--solver-budget", a.solver_budget));
    options.threads = a.threads;
    if (a.quick) {
        options.solver_budget_s = std::min(options.solver_budget_s, kQuickBudget_s);
        options.time_share = kQuickShare;
        options.plan_budget_s = std::min(options.plan_budget_s, kQuickBudget_s);
    }
    options.say = [](const std::string& line) {
        std::fputs(("helix: " + line + "\n").c_str(), stderr);
    };
    std::map<ExperimentTopic, std::vector<const Experiment*>> by_topic;
    for (const Experiment* one : experiments) by_topic[one->topic].push_back(one);
    const bool published = by_topic.contains(ExperimentTopic::published);
    ExperimentData data;  // the others need none
    if (published) {
        TRY(const std::string folder, data_folder(a));
        TRY(data, ExperimentData::open(folder, output + "/inputs"));
    }
    ExperimentSession session(std::move(data), options);
    std::vector<ExperimentPage> pages;
    for (const ExperimentTopic topic : kTopics) {
        if (!by_topic.contains(topic)) continue;
        TRY(ExperimentPage page, make_page(a, topic, by_topic.at(topic), session));
        if (!a.output.empty()) TRY_VOID(page.write(a.output));
        pages.push_back(std::move(page));
    }
    if (a.json) std::fputs((as_json(session, pages).dump(1) + "\n").c_str(), stdout);
    return base::Ok{};
}

std::vector<Experiment> published_experiments() {
    return {
        cluster_experiment("single-cluster", "Single cluster", "single24",
                           {"llama2-70b", "llama1-30b"}),
        cluster_experiment("distributed", "Clusters in three regions", "distributed24",
                           {"llama2-70b", "llama1-30b"}),
        cluster_experiment("high-heterogeneity", "Seven types of machines", "highhet42",
                           {"llama2-70b"}),
        placement_experiment(),
        scheduling_experiment(),
        ablation_experiment(),
        prototype_experiment(),
        gain_experiment(),
        ratio_experiment(),
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

void add_experiment(App& app) {
    CLI::App* experiment = app.parser.add_subcommand(
        "experiment",
        "In virtual time, with tables and pictures: the published evaluation again, requests that "
        "move, and machines for prompts");
    auto a = std::make_shared<ExperimentArguments>();
    experiment
        ->add_option("NAME", a->name,
                     "an experiment, all, published (the paper's), live (requests that move), or "
                     "list")
        ->required();
    experiment->add_option(
        "--data", a->data,
        "folder of published inputs: clusters, profiles, layouts, replay, traces [the project's "
        "data/paper]; made-up: the same machines by datasheet, written to OUTPUT/inputs");
    experiment->add_option("--output", a->output, "folder for the pages and img/");
    experiment
        ->add_option("--plan-budget", a->plan_budget,
                     "the longest that each placement by our planner may take")
        ->capture_default_str();
    experiment
        ->add_option("--solver-budget", a->solver_budget,
                     "the longest that each run of the paper's program may take")
        ->capture_default_str();
    experiment->add_option("--threads", a->threads, "at once [as many as this machine has]");
    experiment->add_flag("--quick", a->quick, "a tenth of every window: to try things out");
    experiment->add_flag("--json", a->json, "tables and runs as one JSON object");
    experiment->footer(
        "Examples:\n"
        "  helix experiment list\n"
        "  helix experiment single-cluster --output results\n"
        "  helix experiment all --output docs\n"
        "  helix experiment live --output docs");
    experiment->callback([&app, a] { app.action = [a] { return run_experiments(*a); }; });
}

}  // namespace helix::cli
