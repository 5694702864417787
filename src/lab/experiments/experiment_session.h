#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/experiments/experiment_case.h"
#include "lab/experiments/experiment_data.h"
#include "plan/milp/milp.h"
#include "plan/report/plan_report.h"

namespace helix::lab {

struct ExperimentOptions {
    double plan_budget_s = 10;                    // of each placement by our planner
    double solver_budget_s = 60;                  // of each run of the paper's program
    double time_share = 1;                        // windows are so much shorter
    int threads = 0;                              // 0: as many as the machine has
    std::function<void(const std::string&)> say;  // a line about progress; may be empty
};

// The runs that tables are made of, each done once however many tables show it: what is wanted is
// collected first and then run on all threads.
class ExperimentSession {
  public:
    ExperimentSession(ExperimentData data, ExperimentOptions options)
        : data_(std::move(data)), options_(std::move(options)) {}

    const ExperimentData& data() const { return data_; }
    const ExperimentOptions& options() const { return options_; }

    void want(const ExperimentCase& wanted);
    // Plans and runs what is wanted and not known yet. Errors: files that cannot be read. A case
    // that cannot run has the reason in its result.
    base::Status run_wanted(const std::string& what);
    // What was wanted and run.
    const ExperimentResult& result(const ExperimentCase& wanted) const;
    const std::map<std::string, ExperimentResult>& results() const { return results_; }

    base::Result<const Problem*> problem(const std::string& cluster, const std::string& model);
    struct Planned {
        plan::PlanReport report;
        double seconds = 0;  // of the clock, on all threads
    };
    // Our planner's placement for "own", made for this policy; the most flow for "helix", no deeper
    // than the published layout; "search" the most flow of any depth; a rule's for the others.
    base::Result<const Planned*> plan(const std::string& cluster, const std::string& model,
                                      const std::string& method, ExperimentPolicy policy);
    // The paper's program as the paper has it, every machine holding a layer, and what its solver
    // finds within solver_budget_s of the clock.
    struct PaperProgram {
        bool partial = false;
        int prune = 0;  // keep so many links of each machine; 0: all
        bool start = true;
        double stop_after_idle_s = 0;  // 0: only the budget ends it
    };
    base::Result<plan::MilpReport> solve(const std::string& cluster, const std::string& model,
                                         const PaperProgram& program);

  private:
    ProblemSource source_of(const std::string& cluster, const std::string& model) const;
    ExperimentCase scaled(ExperimentCase wanted) const;
    base::Result<std::vector<LayoutPart>> find_layout(const ExperimentCase& wanted);
    void say(const std::string& line) const {
        if (options_.say) options_.say(line);
    }

    ExperimentData data_;
    ExperimentOptions options_;
    std::map<std::string, std::unique_ptr<Problem>> problems_;
    std::map<std::string, base::Result<Planned>> plans_;
    std::map<std::string, ExperimentCase> wanted_;
    std::map<std::string, ExperimentResult> results_;
};

}  // namespace helix::lab
