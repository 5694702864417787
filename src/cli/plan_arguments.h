#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "lab/planning/change_report.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"

namespace helix::cli {

// What `helix plan` is asked.
struct PlanArguments {
    lab::ProblemSource problem;
    std::string method = "auto";
    std::string objective = "throughput";
    std::string batching = "helix";
    std::string placement;
    std::string convention = "reference";
    bool no_partial = false;
    std::string budget;
    std::uint64_t seed = 1;
    int threads = 0;

    double max_depth = 0;
    double tpot_slo_ms = 0;
    int survive = 0;
    double survive_flow = 0;
    double rate = 0;
    std::string lengths;
    std::string judge = "simulate";
    bool usual_policy = false;
    std::string kv_types;

    std::string solver = "cbc";
    int prune = 0;
    std::string start = "rules";
    bool no_early_stop = false;
    std::string stop_after_idle;
    bool no_cap_links = false;
    bool every_machine = false;
    int swarm_stages = 0;

    lab::ChangeWords changes;
    std::string current;
    std::string horizon = "1h";
    int advise = 0;

    bool json = false;
    std::string output;
    std::string svg;

    void add_to(CLI::App& command);
};

// What they say of how plans are made. Errors name the option.
base::Result<lab::PlanSettings> plan_settings(const PlanArguments& arguments);

}  // namespace helix::cli
