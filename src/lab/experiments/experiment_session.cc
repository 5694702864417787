#include "lab/experiments/experiment_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "lab/planning/plan_judge.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"
#include "plan/paper_program.h"
#include "plan/rules/heuristics_separate.h"

namespace helix::lab {
namespace {

// The paper's problem is solved in less than a second where it is solved at all.
constexpr double kFlowBudget_s = 4;

// One pipeline over all machines of the types that its layout is called by ("separate_v100_t4"),
// the layers split evenly, as the published ones are made by hand.
base::Result<spec::PlacementFile> separate_pipeline(const Problem& problem, std::string_view name) {
    const std::vector<spec::NodeSpec>& nodes = problem.cluster.nodes;
    std::vector<std::int32_t> stages;
    for (std::size_t at = name.find('_'); at != std::string_view::npos;) {
        const std::size_t next = name.find('_', at + 1);
        const std::string_view type = name.substr(at + 1, next - at - 1);
        for (std::size_t n = 0; n < nodes.size(); ++n) {
            const auto same = [](char a, char b) { return std::tolower(a) == b; };
            if (std::equal(nodes[n].type.begin(), nodes[n].type.end(), type.begin(), type.end(),
                           same)) {
                stages.push_back(static_cast<std::int32_t>(n));
            }
        }
        at = next;
    }
    if (stages.empty()) {
        return base::invalid(fmt::format("{}: no machines for {}", problem.cluster.name, name));
    }
    spec::PlacementFile file;
    file.cluster = problem.cluster.name;
    file.model = problem.model.name;
    file.method = name;
    file.n_layers = problem.model.n_layers;
    file.placement = plan::equal_chain(stages, nodes.size(), file.n_layers);
    file.links = plan::chain_links(stages);
    return file;
}

// Those of `known`; in place of files that are not kept, and of SP+'s mixed pipeline, whose file
// names eight V100s where the cluster has six, what the published rule makes of the cluster.
base::Result<std::vector<LayoutPart>> separate_pipelines(const Problem& problem,
                                                         const ExperimentCase& wanted,
                                                         std::vector<LayoutPart> known) {
    const PublishedMethod* const method =
        find_published(wanted.cluster, wanted.model, wanted.method);
    CHECK(method != nullptr);
    for (std::size_t i = 0; i < method->parts.size(); ++i) {
        const PublishedPart& part = method->parts[i];
        const std::string_view name = part.layout;
        const bool mixed = name.find('_') != name.rfind('_');
        if (i < known.size() && !mixed) continue;
        LayoutPart made;
        TRY(made.plan, separate_pipeline(problem, name));
        made.published_rule = true;
        made.population = part.population;
        made.online_tokens_per_s = part.online_tokens_per_s;
        if (i < known.size()) known.resize(i);
        known.push_back(std::move(made));
    }
    return known;
}

plan::Method method_called(std::string_view name) {
    for (const plan::Method method : plan_methods()) {
        if (name == plan::to_string(method)) return method;
    }
    CHECK(false);
    return plan::Method::automatic;
}

// "own": our planner as it is, for the policy that the plan is to run under; the others by the
// paper's rules.
PlanSettings settings_for(const std::string& method, ExperimentPolicy policy) {
    PlanSettings settings;
    settings.choose_policy = false;  // all layouts run under the same one
    if (method == "own") {
        if (policy == ExperimentPolicy::published) {
            settings.options.batchings = {plan::Batching::reference};
            settings.options.performance.batching = plan::Batching::reference;
        }
        return settings;
    }
    settings.options.objective = plan::Objective::flow;
    settings.options.flow.partial = false;
    if (method != "helix") settings.options.method = method_called(method);
    return settings;
}

}  // namespace

ProblemSource ExperimentSession::source_of(const std::string& cluster,
                                           const std::string& model) const {
    ProblemSource source;
    source.cluster = data_.cluster_file(cluster);
    source.model = model;
    source.profiles = data_.profiles();
    return source;
}

base::Result<const Problem*> ExperimentSession::problem(const std::string& cluster,
                                                        const std::string& model) {
    std::unique_ptr<Problem>& known = problems_[cluster + "/" + model];
    if (!known) {
        TRY(Problem loaded, load_problem(source_of(cluster, model)));
        known = std::make_unique<Problem>(std::move(loaded));
    }
    return static_cast<const Problem*>(known.get());
}

base::Result<const ExperimentSession::Planned*> ExperimentSession::plan(const std::string& cluster,
                                                                        const std::string& model,
                                                                        const std::string& method,
                                                                        ExperimentPolicy policy) {
    std::string key = cluster + "/" + model + "/" + method;
    if (method == "own") key += policy == ExperimentPolicy::own ? "/own" : "/published";
    auto found = plans_.find(key);
    if (found == plans_.end()) {
        TRY(const Problem* const problem, this->problem(cluster, model));
        say(fmt::format("planning {} {}, {}", cluster, model_title(model), method_title(method)));
        PlanSettings settings = settings_for(method, policy);
        settings.threads = options_.threads;
        if (method == "helix" && model == "llama2-70b") {
            settings.options.max_depth = published_depth(cluster);
        }
        const auto began = std::chrono::steady_clock::now();
        const double budget_s = method == "own" ? options_.plan_budget_s
                                                : std::min(kFlowBudget_s, options_.plan_budget_s);
        const ProblemSource source = source_of(cluster, model);
        const PlanSession session{
            .source = source,
            .settings = settings,
            .elapsed_s =
                [&] {
                    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began)
                        .count();
                },
            .interrupted = [] { return false; },
            .progress = [](const plan::PlanProgress&) {},
            .budget_s = budget_s};
        auto report = session.plan(*problem, budget_s, nullptr);
        base::Result<Planned> planned = base::Error{};
        if (report.ok()) {
            planned = Planned{std::move(*report), session.elapsed_s()};
        } else {
            planned = report.error();
        }
        found = plans_.emplace(key, std::move(planned)).first;
    }
    if (!found->second.ok()) return found->second.error();
    return static_cast<const Planned*>(&*found->second);
}

base::Result<plan::MilpReport> ExperimentSession::solve(const std::string& cluster,
                                                        const std::string& model,
                                                        const PaperProgram& program) {
    TRY(const Problem* const problem, this->problem(cluster, model));
    say(fmt::format("the paper's program on {} {}, {} links, {} partial inference, {} start",
                    cluster, model_title(model), program.prune > 0 ? "pruned" : "all",
                    program.partial ? "with" : "no", program.start ? "with" : "no"));
    PlanSettings settings;
    settings.options.objective = plan::Objective::flow;
    settings.options.method = plan::Method::milp;
    settings.options.flow.partial = program.partial;
    if (program.prune > 0) {
        settings.options.milp.prune = plan::PruneOptions{
            .min_keep = program.prune, .max_keep = program.prune, .threshold_bytes_per_s = 0};
    }
    settings.options.milp_start = program.start ? plan::MilpStart::rules : plan::MilpStart::none;
    settings.options.milp.formulation.every_node_holds = true;
    TRY(plan::PlanOptions options, options_for(settings, *problem));
    const auto began = std::chrono::steady_clock::now();
    options.milp.stop.now_s = [began] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    options.milp.stop.asked = [] { return false; };
    options.milp.stop.time_limit_s = options_.solver_budget_s;
    options.milp.stop.idle_s = program.stop_after_idle_s;
    return plan::solve_paper_program({problem->cluster, problem->model, problem->capacities},
                                     options);
}

ExperimentCase ExperimentSession::scaled(ExperimentCase wanted) const {
    wanted.warmup_s *= options_.time_share;
    wanted.duration_s *= options_.time_share;
    return wanted;
}

void ExperimentSession::want(const ExperimentCase& wanted) {
    const ExperimentCase c = scaled(wanted);
    if (!results_.contains(c.key())) wanted_.emplace(c.key(), c);
}

const ExperimentResult& ExperimentSession::result(const ExperimentCase& wanted) const {
    const auto found = results_.find(scaled(wanted).key());
    CHECK(found != results_.end());
    return found->second;
}

base::Result<std::vector<LayoutPart>> ExperimentSession::find_layout(const ExperimentCase& wanted) {
    std::vector<LayoutPart> parts = published_layout(data_, wanted);
    const bool mixed = wanted.method == "separate-plus";
    if (!parts.empty() && !mixed) return parts;
    if (!wanted.layout.empty()) {
        return base::Error{base::Errc::not_found, "the layout is not kept: " + wanted.layout};
    }
    TRY(const Problem* const problem, this->problem(wanted.cluster, wanted.model));
    if (mixed || wanted.method == "separate") {
        return separate_pipelines(*problem, wanted, std::move(parts));
    }
    TRY(const Planned* const planned,
        plan(wanted.cluster, wanted.model, wanted.method, wanted.policy));
    LayoutPart part;
    part.plan = placement_file(*problem, planned->report);
    const PublishedMethod* known = find_published(wanted.cluster, wanted.model, wanted.method);
    if (known == nullptr) known = find_published(wanted.cluster, wanted.model, "helix");
    if (known != nullptr) {
        for (const PublishedPart& published : known->parts) {
            part.population += published.population;
            part.online_tokens_per_s += published.online_tokens_per_s;
        }
    }
    return std::vector<LayoutPart>{std::move(part)};
}

base::Status ExperimentSession::run_wanted(const std::string& what) {
    struct Job {
        ExperimentCase wanted;
        const Problem* problem = nullptr;
        std::vector<LayoutPart> parts;
        ExperimentResult result;
    };
    std::vector<Job> jobs;
    for (const auto& [key, wanted] : wanted_) {
        Job job;
        job.wanted = wanted;
        TRY(job.problem, problem(wanted.cluster, wanted.model));
        auto parts = find_layout(wanted);
        if (parts.ok()) {
            job.parts = std::move(*parts);
        } else {
            job.result.error = parts.error().message;
        }
        jobs.push_back(std::move(job));
    }
    wanted_.clear();
    // The longest first, so that no thread is left alone with one at the end.
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
        const auto weight = [](const Job& job) {
            return static_cast<double>(job.problem->cluster.nodes.size()) * job.wanted.duration_s *
                   (job.wanted.policy == ExperimentPolicy::own ? 5 : 1);
        };
        return weight(a) > weight(b);
    });
    std::mutex mutex;
    std::size_t begun = 0;
    const auto run = [&](int i) {
        Job& job = jobs[static_cast<std::size_t>(i)];
        if (!job.result.error.empty()) return;
        {
            const std::scoped_lock lock(mutex);
            say(fmt::format("{}: run {} of {}: {}", what, ++begun, jobs.size(),
                            job.wanted.title()));
        }
        job.result = run_case(data_, *job.problem, job.wanted, job.parts);
    };
    threads_executor(options_.threads)(static_cast<int>(jobs.size()), run);
    for (Job& job : jobs) results_[job.wanted.key()] = std::move(job.result);
    return base::Ok{};
}

}  // namespace helix::lab
