#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "net/zmq_transport.h"
#include "plan/planner.h"
#include "spec/serving_policy.h"

namespace helix::node {

using PlanFunction =
    std::function<base::Result<plan::PlanReport>(const spec::ClusterSpec& cluster)>;
// Plans from current, which is what each node holds now.
using ReplanFunction = std::function<base::Result<plan::PlanReport>(
    const spec::ClusterSpec& cluster, const spec::Placement& current)>;

// Layers of workers, by their names.
using NamedPlacement = std::map<std::string, spec::LayerRange>;
// What is to be said of that placement; an error where the cluster cannot have it.
using NamedPlanFunction = std::function<base::Result<plan::PlanReport>(
    const spec::ClusterSpec& cluster, const NamedPlacement& chosen)>;

struct PlanResult {
    core::PlanCluster question;
    base::Result<plan::PlanReport> report;
    bool chosen = false;  // it is the placement that was asked with
};

// Searches placements on a thread of its own; one at a time, in order.
class PlannerThread {
  public:
    PlannerThread(ReplanFunction function, NamedPlanFunction named, const net::Wakeup& done);
    ~PlannerThread();
    PlannerThread(const PlannerThread&) = delete;
    PlannerThread& operator=(const PlannerThread&) = delete;

    // chosen: the placement that somebody wants; where the cluster cannot have it, it is planned as
    // ever.
    void ask(core::PlanCluster question, std::optional<NamedPlacement> chosen = {});
    std::vector<PlanResult> take_results();

  private:
    struct Question {
        core::PlanCluster plan;
        std::optional<NamedPlacement> chosen;
    };
    void work();
    PlanResult answer(Question question) const;

    ReplanFunction function_;
    NamedPlanFunction named_;
    const net::Wakeup& done_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Question> questions_;
    std::vector<PlanResult> results_;
    bool stopping_ = false;
    std::thread thread_;
};

// Runs plan::plan with at most this long to search, starting from what is there: what moves must be
// worth the bytes that are loaded.
ReplanFunction planner_for(const spec::ModelSpec& model, base::Duration limit);

// Judges placements that people name; an error says which workers are missing.
NamedPlanFunction named_planner_for(const spec::ModelSpec& model);

// A planner that always gives the placement of a file that `helix plan --output` wrote, and spreads
// requests as the file says, where it says so. The workers are known by their names.
struct FilePlacement {
    PlanFunction planner;  // while a worker is missing its answer is an error that names it
    std::vector<std::string> workers;             // that have layers
    spec::ServingPolicy policy;                   // that the plan is for
    std::map<std::string, spec::NodeRole> roles;  // that the plan has for its workers
};
// Errors: the file cannot be read, is for another model, or has no names.
base::Result<FilePlacement> planner_for_file(const spec::ModelSpec& model, const std::string& path);

}  // namespace helix::node
