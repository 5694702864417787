#include "lab/experiments/experiment_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "core/routing/router_catalogue.h"
#include "lab/simulation/run_watch.h"
#include "lab/simulation/simulated_load.h"
#include "lab/simulation/simulation_setup.h"
#include "sim/published/reference_world.h"
#include "sim/throughput/helix_run.h"
#include "sim/throughput/peak_search.h"

namespace helix::lab {
namespace {

const char* policy_title(ExperimentPolicy policy) {
    switch (policy) {
        case ExperimentPolicy::published:
            return "published policy";
        case ExperimentPolicy::prototype:
            return "as the prototype";
        case ExperimentPolicy::own:
            return "our policy";
    }
    CHECK(false);
    return "";
}

std::string baseline_key(const ExperimentCase& c) {
    return std::string(c.as_vllm ? "/vllm" : "") + (c.as_llumnix ? "/llumnix" : "");
}

bool is_separate(const ExperimentCase& c) {
    return c.method == "separate" || c.method == "separate-plus";
}

sim::ReferenceScheduler scheduler_of(const ExperimentCase& c) {
    if (c.scheduler) return *c.scheduler;
    if (c.method == "swarm") return sim::ReferenceScheduler::swarm;
    if (is_separate(c)) return sim::ReferenceScheduler::random;
    return sim::ReferenceScheduler::max_flow;
}

// Whole stages only, as all published layouts were made.
std::vector<std::pair<std::int32_t, std::int32_t>> links_that_fit(
    const Problem& problem, const spec::Placement& placement) {
    const auto layers = [&](std::int32_t node) {
        return placement.layers[static_cast<std::size_t>(node)];
    };
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    for (const spec::LinkSpec& link : problem.cluster.links) {
        const bool from_coordinator = link.from == spec::kCoordinator;
        const bool to_coordinator = link.to == spec::kCoordinator;
        if (!from_coordinator && layers(link.from).empty()) continue;
        if (!to_coordinator && layers(link.to).empty()) continue;
        const std::int32_t end = from_coordinator ? 0 : layers(link.from).end;
        const std::int32_t begin = to_coordinator ? problem.model.n_layers : layers(link.to).begin;
        if (end == begin) links.emplace_back(link.from, link.to);
    }
    return links;
}

base::Result<sim::ReferenceSetup> setup_of(const Problem& problem, const ExperimentCase& c,
                                           const LayoutPart& part) {
    const ReferenceLayout layout{scheduler_of(c), is_separate(c)};
    const auto read = [&]() -> base::Result<sim::ReferenceSetup> {
        if (!part.plan && !c.all_links) return reference_setup_from(part.path, problem, layout);
        if (part.plan) return reference_setup_from(*part.plan, problem, layout);
        TRY(spec::PlacementFile file, read_simulated_layout(part.path, problem));
        file.links = links_that_fit(problem, file.placement);
        file.flows.clear();
        file.max_flow_tokens_per_s.reset();
        return reference_setup_from(std::move(file), problem, layout);
    };
    TRY(sim::ReferenceSetup setup, read());
    setup.scheduler = layout.scheduler;
    for (sim::ReferenceNode& node : setup.nodes) {
        const auto written = part.kv_token_layers.find(node.layers.size());
        if (written != part.kv_token_layers.end()) node.kv_capacity = written->second;
    }
    if (c.policy == ExperimentPolicy::prototype) {
        setup.batching.order = sim::ReferenceBatching::Order::two_passes;
    }
    return setup;
}

constexpr sim::PeakRules kPeakRules = {.precision = 0.05};

// Of a report only the rates are filled in.
base::Result<sim::SimReport> peak_of(const Problem& problem, const ExperimentCase& c,
                                     const SimulatedLoad& load, sim::ReferenceSetup reference) {
    sim::Peak peak;
    if (c.policy == ExperimentPolicy::own) {
        sim::HelixSetup setup = helix_setup_like(problem, reference);
        put_under_load(setup, load);
        TRY(peak, sim::find_peak(setup, {}, kPeakRules));
    } else {
        put_under_load(reference, load);
        TRY(peak, sim::find_peak(reference, {}, kPeakRules));
    }
    sim::SimReport report;
    report.prompt_tokens_per_s = peak.tokens_per_s;
    return report;
}

// Runs the setup and, where the case asks for it, looks on.
template <typename Setup, typename Run>
base::Result<sim::SimReport> run_watched(const Problem& problem, const ExperimentCase& c,
                                         Setup& setup, const spec::Placement& placement,
                                         double start_s, const Run& run) {
    if (!c.detail) return run(setup);
    TRY(const auto watch,
        RunWatch::create({}, problem.cluster, placement, problem.model.n_layers, {}, start_s,
                         setup.warmup_s, setup.duration_s, !setup.online));
    setup.observer = watch->observer();
    TRY(sim::SimReport report, run(setup));
    TRY_VOID(watch->finish(report, {}, {}));
    return report;
}

base::Result<sim::SimReport> run_part(const ExperimentData& data, const Problem& problem,
                                      const ExperimentCase& c, const LayoutPart& part,
                                      double online_tokens_per_s) {
    TRY(sim::ReferenceSetup reference, setup_of(problem, c, part));
    SimulatedLoad load;
    load.lengths = data.lengths();
    load.warmup_s = c.warmup_s;
    load.duration_s = c.duration_s;
    if (c.find_peak) return peak_of(problem, c, load, std::move(reference));
    if (c.online) load.online = data.online(online_tokens_per_s);
    if (c.policy == ExperimentPolicy::own) {
        sim::HelixSetup setup = helix_setup_like(problem, reference);
        put_under_load(setup, load);
        if (c.as_vllm) work_as_vllm(setup, {.max_batched_tokens = 0});
        if (c.as_llumnix) {
            setup.coordinator.router = core::llumnix_router().make;
            core::balance_as_llumnix(setup.coordinator);
        }
        return run_watched(problem, c, setup, setup.placement, sim::helix_start_s(setup),
                           [](const sim::HelixSetup& s) { return sim::run_helix(s); });
    }
    if (reference.scheduler != sim::ReferenceScheduler::max_flow) {
        load.population = c.population > 0 ? c.population : part.population;
    }
    put_under_load(reference, load);
    return run_watched(problem, c, reference, placement_of(problem, reference), reference.start_s,
                       [](const sim::ReferenceSetup& s) { return sim::run_reference(s); });
}

}  // namespace

std::string ExperimentCase::key() const {
    return fmt::format("{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}{}", cluster, model, method,
                       static_cast<int>(policy), layout,
                       scheduler ? static_cast<int>(*scheduler) : -1, population,
                       fmt::join(populations, ","), online, online_tokens_per_s, warmup_s,
                       duration_s, all_links, find_peak, detail, baseline_key(*this));
}

std::string ExperimentCase::title() const {
    return fmt::format("{} {} {}{}, {}{}, {}", cluster, model_title(model), method_title(method),
                       layout.empty() ? "" : " (" + layout + ")", policy_title(policy),
                       baseline_key(*this),
                       find_peak ? "search for the peak"
                       : online  ? "online"
                                 : "offline");
}

std::vector<LayoutPart> published_layout(const ExperimentData& data, const ExperimentCase& wanted) {
    std::vector<LayoutPart> parts;
    if (!wanted.layout.empty()) {
        const auto path = data.layout_file(wanted.layout);
        if (path) parts.push_back({.path = *path});
        return parts;
    }
    const PublishedMethod* const known =
        find_published(wanted.cluster, wanted.model, wanted.method);
    if (known == nullptr) return parts;
    for (const PublishedPart& part : known->parts) {
        const auto path = data.layout_file(wanted.cluster, wanted.model, part.layout);
        if (!path) return {};
        parts.push_back({.path = *path,
                         .population = part.population,
                         .online_tokens_per_s = part.online_tokens_per_s,
                         .kv_token_layers = part.kv_token_layers});
    }
    return parts;
}

sim::SimReport add_reports(const std::vector<sim::SimReport>& parts) {
    if (parts.size() == 1) return parts.front();
    sim::SimReport sum;
    sim::LatencyStats ttft;
    sim::LatencyStats tpot;
    double stages = 0;
    for (const sim::SimReport& part : parts) {
        sum.decode_tokens_per_s += part.decode_tokens_per_s;
        sum.prompt_tokens_per_s += part.prompt_tokens_per_s;
        sum.mean_resident += part.mean_resident;
        sum.kv_peak = std::max(sum.kv_peak, part.kv_peak);
        sum.kv_layer_peak = std::max(sum.kv_layer_peak, part.kv_layer_peak);
        sum.kv_overflowed = sum.kv_overflowed || part.kv_overflowed;
        sum.rejected += part.rejected;
        sum.preempted += part.preempted;
        sum.admitted += part.admitted;
        sum.finished += part.finished;
        sum.iterations += part.iterations;
        sum.events += part.events;
        sum.max_flow_tokens_per_s += part.max_flow_tokens_per_s;
        sum.digest = sum.digest * 31 + part.digest;
        stages += part.mean_depth * static_cast<double>(part.admitted);
        if (part.ttft.samples) ttft.merge(*part.ttft.samples);
        if (part.tpot.samples) tpot.merge(*part.tpot.samples);
        sum.node_busy.resize(std::max(sum.node_busy.size(), part.node_busy.size()));
        for (std::size_t n = 0; n < part.node_busy.size(); ++n) {
            sum.node_busy[n] += part.node_busy[n];
        }
    }
    sum.ttft = ttft.summary();
    sum.tpot = tpot.summary();
    if (sum.admitted > 0) sum.mean_depth = stages / static_cast<double>(sum.admitted);
    return sum;
}

ExperimentResult run_case(const ExperimentData& data, const Problem& problem,
                          const ExperimentCase& wanted, const std::vector<LayoutPart>& parts) {
    ExperimentResult result;
    double published_rate = 0;
    for (const LayoutPart& part : parts) published_rate += part.online_tokens_per_s;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        LayoutPart part = parts[i];
        if (i < wanted.populations.size()) part.population = wanted.populations[i];
        double rate = wanted.online_tokens_per_s;
        if (rate <= 0) {
            rate = part.online_tokens_per_s;
        } else if (parts.size() > 1 && published_rate > 0) {
            rate *= part.online_tokens_per_s / published_rate;
        }
        if (wanted.online && !(rate > 0)) {
            result.error = "no rate was published";
            return result;
        }
        result.planned = result.planned || (part.plan && !part.published_rule);
        result.offered_tokens_per_s += wanted.online ? rate : 0;
        auto report = run_part(data, problem, wanted, part, rate);
        if (!report.ok()) {
            result.error = report.error().message;
            return result;
        }
        result.parts.push_back(std::move(*report));
    }
    result.report = add_reports(result.parts);
    if (result.parts.size() > 1) {  // a distribution of each part would fill memory
        for (sim::SimReport& part : result.parts) {
            part.ttft.samples.reset();
            part.tpot.samples.reset();
        }
    }
    if (wanted.find_peak) {
        result.offered_tokens_per_s = result.report.prompt_tokens_per_s;
        result.report = {};
    }
    return result;
}

}  // namespace helix::lab
