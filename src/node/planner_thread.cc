#include "node/planner_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "node/clock.h"
#include "plan/change/placement_diff.h"
#include "plan/change/replan.h"
#include "plan/problem/roles.h"
#include "spec/placement_file.h"

namespace helix::node {
namespace {

// Enough for a dozen machines; beyond, the time limit ends the search.
constexpr std::int64_t kFlowIterations = 20'000;
constexpr std::int64_t kThroughputIterations = 20'000;

// Weights are taken to come as over a quick network, and a new placement to last this long.
constexpr double kLoadBytesPerS = 5e8;
constexpr double kHorizonS = 600;

double tokens_per_s(const plan::PlanReport& report) {
    return report.prediction ? report.prediction->decode_tokens_per_s
                             : report.max_flow_tokens_per_s;
}

bool worth_moving(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                  const spec::Placement& current, const plan::PlanReport& stays,
                  const plan::PlanReport& best) {
    const plan::PlacementDiff diff =
        plan::placement_diff(cluster, model, current, best.placement, 0);
    const double price = plan::move_price(tokens_per_s(stays), kLoadBytesPerS, kHorizonS);
    return tokens_per_s(best) - price * static_cast<double>(diff.bytes) > tokens_per_s(stays);
}

base::Result<plan::PlanOptions> options_for_named(const spec::ClusterSpec& cluster,
                                                  const NamedPlacement& chosen) {
    plan::PlanOptions options;
    options.method = plan::Method::manual;
    options.manual.layers.resize(cluster.nodes.size());
    std::string missing;
    for (const auto& [name, layers] : chosen) {
        const std::optional<std::int32_t> node = spec::find_node(cluster, name);
        if (!node) {
            missing += (missing.empty() ? "" : ", ") + name;
            continue;
        }
        options.manual.layers[static_cast<std::size_t>(*node)] = layers;
    }
    if (!missing.empty()) {
        return base::Error{base::Errc::unavailable, fmt::format("waits for {}", missing)};
    }
    return options;
}

// The file's flows between the nodes of the cluster, all of which have a node's name of the file.
std::vector<spec::LinkFlow> flows_between(const spec::ClusterSpec& cluster,
                                          const spec::PlacementFile& file) {
    const auto node = [&](std::int32_t of_file) {
        if (of_file == spec::kCoordinator) return spec::kCoordinator;
        const std::optional<std::int32_t> found =
            spec::find_node(cluster, file.node_names[static_cast<std::size_t>(of_file)]);
        CHECK(found);
        return *found;
    };
    std::vector<spec::LinkFlow> flows;
    for (const spec::LinkFlow& flow : file.flows) {
        flows.push_back({node(flow.from), node(flow.to), flow.tokens_per_s});
    }
    return flows;
}

// Every flow leads on: to a node that has the layer behind the last of where it comes from, or from
// the one that has the last of all to the coordinator.
base::Status check_flows(const spec::PlacementFile& file, const std::string& path) {
    const auto name = [&](std::int32_t node) {
        return node == spec::kCoordinator ? std::string("the coordinator")
                                          : file.node_names[static_cast<std::size_t>(node)];
    };
    for (const spec::LinkFlow& flow : file.flows) {
        for (const std::int32_t node : {flow.from, flow.to}) {
            if (node == spec::kCoordinator) continue;
            if (!file.placement.layers[static_cast<std::size_t>(node)].empty()) continue;
            return base::invalid(fmt::format("{}: flows: {} has no layers", path, name(node)));
        }
        const std::int32_t next =
            flow.from == spec::kCoordinator
                ? 0
                : file.placement.layers[static_cast<std::size_t>(flow.from)].end;
        const bool leads_on =
            flow.to == spec::kCoordinator
                ? next == file.n_layers
                : file.placement.layers[static_cast<std::size_t>(flow.to)].contains(next);
        if (!leads_on) {
            return base::invalid(fmt::format("{}: flows: from {} to {} a request misses layers",
                                             path, name(flow.from), name(flow.to)));
        }
    }
    return base::Ok{};
}

}  // namespace

PlannerThread::PlannerThread(ReplanFunction function, NamedPlanFunction named,
                             const net::Wakeup& done)
    : function_(std::move(function)),
      named_(std::move(named)),
      done_(done),
      thread_([this] { work(); }) {}

PlannerThread::~PlannerThread() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void PlannerThread::ask(core::PlanCluster question, std::optional<NamedPlacement> chosen) {
    {
        const std::lock_guard lock(mutex_);
        questions_.push_back({std::move(question), std::move(chosen)});
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
        Question question = std::move(questions_.front());
        questions_.pop_front();
        lock.unlock();
        PlanResult result = answer(std::move(question));
        lock.lock();
        results_.push_back(std::move(result));
        done_.wake();
    }
}

PlanResult PlannerThread::answer(Question question) const {
    PlanResult result{std::move(question.plan), base::Error{}};
    const core::PlanCluster& plan = result.question;
    try {
        if (question.chosen) {
            result.report = named_(plan.cluster, *question.chosen);
            result.chosen = result.report.ok();
            if (result.chosen) return result;
            LOG_WARN("the placement that was asked for cannot be: {}",
                     result.report.error().message);
        }
        result.report = function_(plan.cluster, plan.current);
    } catch (const std::exception& exception) {  // from a solver library, or for lack of memory
        result.chosen = false;
        result.report = base::Error{base::Errc::internal, exception.what()};
    }
    return result;
}

ReplanFunction planner_for(const spec::ModelSpec& model, base::Duration limit) {
    return [model, limit](const spec::ClusterSpec& cluster,
                          const spec::Placement& current) -> base::Result<plan::PlanReport> {
        const base::TimePoint began = now();
        plan::PlanOptions options;
        options.objective = plan::Objective::throughput;
        options.iterations = kFlowIterations;
        options.throughput_iterations = kThroughputIterations;
        options.stop = [began, limit] { return now() >= began + limit; };
        options.time_used = [began, limit] {
            return limit.ns > 0 ? (now() - began).seconds() / limit.seconds() : 1.0;
        };
        options.flow_stop = [began, limit] { return (now() - began) * 4 >= limit; };
        const bool holds =
            std::any_of(current.layers.begin(), current.layers.end(),
                        [](const spec::LayerRange& layers) { return !layers.empty(); });
        if (!holds) return plan::plan(cluster, model, options);
        options.starts.push_back(current);
        TRY(plan::PlanReport best, plan::plan(cluster, model, options));
        options.method = plan::Method::manual;
        options.manual = current;
        auto stays = plan::plan(cluster, model, options);
        if (!stays.ok()) return best;  // the present placement cannot serve
        if (plan::keeps_roles(cluster, model, best.placement) &&
            !plan::keeps_roles(cluster, model, current)) {
            return best;
        }
        stays->warnings = best.warnings;
        if (worth_moving(cluster, model, current, *stays, best)) return best;
        return stays;
    };
}

NamedPlanFunction named_planner_for(const spec::ModelSpec& model) {
    return [model](const spec::ClusterSpec& cluster,
                   const NamedPlacement& chosen) -> base::Result<plan::PlanReport> {
        TRY(const plan::PlanOptions options, options_for_named(cluster, chosen));
        return plan::plan(cluster, model, options);
    };
}

base::Result<FilePlacement> planner_for_file(const spec::ModelSpec& model,
                                             const std::string& path) {
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
    TRY_VOID(check_flows(file, path));
    FilePlacement fixed;
    fixed.policy = file.policy.value_or(spec::ServingPolicy());
    NamedPlacement layers;
    for (std::size_t i = 0; i < file.placement.layers.size(); ++i) {
        if (file.placement.layers[i].empty()) continue;
        layers[file.node_names[i]] = file.placement.layers[i];
        fixed.workers.push_back(file.node_names[i]);
        if (!file.placement.roles.empty())
            fixed.roles[file.node_names[i]] = file.placement.roles[i];
    }
    fixed.planner = [model, file, path,
                     layers](const spec::ClusterSpec& cluster) -> base::Result<plan::PlanReport> {
        const auto of_file = [&path](const base::Error& error) {
            return base::Error{error.code, path + ": " + error.message};
        };
        auto options = options_for_named(cluster, layers);
        if (!options.ok()) return of_file(options.error());
        options->manual_flows = flows_between(cluster, file);
        options->performance.policy = file.policy.value_or(spec::ServingPolicy());
        auto report = plan::plan(cluster, model, *options);
        if (!report.ok()) return of_file(report.error());
        const bool broken = report->prediction &&
                            report->prediction->limit.kind == plan::PerformanceLimit::Kind::broken;
        if (broken && !file.flows.empty()) {
            return base::invalid(path + ": its flows do not lead requests through all layers");
        }
        return report;
    };
    return fixed;
}

}  // namespace helix::node
