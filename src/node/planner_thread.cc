#include "node/planner_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "node/clock.h"
#include "spec/placement_file.h"

namespace helix::node {
namespace {

// Enough for a dozen machines; beyond, the time limit ends the search.
constexpr std::int64_t kFlowIterations = 20'000;
constexpr std::int64_t kThroughputIterations = 20'000;

}  // namespace

PlannerThread::PlannerThread(PlanFunction function, const net::Wakeup& done)
    : function_(std::move(function)), done_(done), thread_([this] { work(); }) {}

PlannerThread::~PlannerThread() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void PlannerThread::ask(core::PlanCluster question) {
    {
        const std::lock_guard lock(mutex_);
        questions_.push_back(std::move(question));
    }
    changed_.notify_all();
}

std::vector<PlanResult> PlannerThread::take_results() {
    const std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
}

void PlannerThread::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
        if (stopping_) return;
        core::PlanCluster question = std::move(questions_.front());
        questions_.pop_front();
        lock.unlock();
        base::Result<plan::PlanReport> report = base::Error{};
        try {
            report = function_(question.cluster);
        } catch (const std::exception& exception) {  // a solver library's, or no memory
            report = base::Error{base::Errc::internal, exception.what()};
        }
        lock.lock();
        results_.push_back({std::move(question), std::move(report)});
        done_.wake();
    }
}

PlanFunction planner_for(const spec::ModelSpec& model, base::Duration limit) {
    return [model, limit](const spec::ClusterSpec& cluster) {
        const base::TimePoint began = now();
        plan::PlanOptions options;
        options.objective = plan::Objective::throughput;
        options.iterations = kFlowIterations;
        options.throughput_iterations = kThroughputIterations;
        options.stop = [began, limit] { return now() >= began + limit; };
        options.flow_stop = [began, limit] { return (now() - began) * 4 >= limit; };
        return plan::plan(cluster, model, options);
    };
}

base::Result<PlanFunction> planner_for_file(const spec::ModelSpec& model, const std::string& path) {
    TRY(const spec::PlacementFile file, spec::read_placement_file(path));
    if (file.n_layers != model.n_layers) {
        return base::invalid(fmt::format("{}: is for {} layers, but {} has {}", path, file.n_layers,
                                         model.name, model.n_layers));
    }
    if (file.node_names.empty()) {
        return base::invalid(path +
                             ": has no \"node_names\", so its layers cannot be given to "
                             "workers (helix plan --output writes them)");
    }
    return PlanFunction([model, path,
                         file](const spec::ClusterSpec& cluster) -> base::Result<plan::PlanReport> {
        plan::PlanOptions options;
        options.method = plan::Method::manual;
        options.manual.layers.resize(cluster.nodes.size());
        std::string missing;
        for (std::size_t i = 0; i < file.placement.layers.size(); ++i) {
            if (file.placement.layers[i].empty()) continue;
            const auto node =
                std::find_if(cluster.nodes.begin(), cluster.nodes.end(),
                             [&](const spec::NodeSpec& n) { return n.name == file.node_names[i]; });
            if (node == cluster.nodes.end()) {
                missing += (missing.empty() ? "" : ", ") + file.node_names[i];
                continue;
            }
            options.manual.layers[static_cast<std::size_t>(node - cluster.nodes.begin())] =
                file.placement.layers[i];
        }
        if (!missing.empty()) {
            return base::Error{base::Errc::unavailable,
                               fmt::format("{}: waits for {}", path, missing)};
        }
        return plan::plan(cluster, model, options);
    });
}

}  // namespace helix::node
