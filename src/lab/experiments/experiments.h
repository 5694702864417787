#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/experiments/experiment_data.h"
#include "lab/experiments/experiment_page.h"
#include "lab/experiments/experiment_session.h"

// The tables and figures of `helix experiment`, each in a file of its own, and how they are run.

namespace helix::lab {

// The pages that experiments are shown on.
enum class ExperimentTopic {
    published,       // the paper's tables and figures: experiments.md
    live,            // requests that move, workers that come and go: experiments-live.md
    disaggregation,  // prefill and decode apart: experiments-disaggregation.md
};

// A table or figure.
struct Experiment {
    const char* name;
    const char* shows;
    // Says what runs it needs; those of the second round may depend on the first's results.
    std::function<base::Status(ExperimentSession& session, int round)> ask;
    std::function<base::Status(ExperimentSession& session, ExperimentPage& page)> write;
    ExperimentTopic topic = ExperimentTopic::published;
};
// Of the three clusters, with all methods, offline and online.
Experiment cluster_experiment(const char* name, const char* shows, const char* cluster,
                              std::vector<const char*> models);
Experiment warmup_experiment();
Experiment machines_experiment();
Experiment lengths_experiment();
Experiment placement_experiment();
Experiment scheduling_experiment();
Experiment ablation_experiment();
Experiment prototype_experiment();
Experiment gain_experiment();
Experiment ratio_experiment();
Experiment baselines_experiment();
Experiment disaggregation_experiment();
// All four of the topic live.
std::vector<Experiment> live_experiments();
constexpr int kExperimentRounds = 2;

// In the order of the pages.
const std::vector<Experiment>& all_experiments();
// "published", "live", "disaggregation": the name for all of a topic.
const char* topic_name(ExperimentTopic topic);
// Those of this name: one, all of a topic, or "all"; empty where nothing is called so.
std::vector<const Experiment*> find_experiments(const std::string& name);

struct ExperimentRun {
    std::vector<const Experiment*> experiments;
    std::string name;     // that they were asked for by
    std::string command;  // that does the same again, for the pages
    ExperimentData data;  // for those of the published topic
    ExperimentOptions options;
    std::string output;  // folder for the pages and img/; "": nothing is written
    bool quick = false;  // short windows, which the pages warn of
};
// Runs them and writes their pages. Tables and runs as one JSON object, without a line end.
base::Result<std::string> run_experiments(ExperimentRun run);

}  // namespace helix::lab
