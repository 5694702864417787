#include "lab/experiments/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "base/machine.h"
#include "base/random.h"
#include "core/routing/router_catalogue.h"
#include "lab/experiments/live_watch.h"
#include "plan/problem/capacity.h"
#include "sim/load/synthetic_trace.h"
#include "spec/model_shape.h"

namespace helix::lab {
namespace {

constexpr double kLinkBytesPerS = 10e9 / 8;
constexpr double kLatencyS = 1e-4;
constexpr double kShortest = 1.0 / 16;  // of the mean
constexpr int kRows = 20'000;
constexpr double kDrainS = 120;  // for what came last to finish

// Mean of a Pareto distribution of exponent a on [low, high].
double pareto_mean(double a, double low, double high) {
    const double r = std::pow(low / high, a);
    if (std::abs(a - 1) < 1e-9) return low * std::log(high / low) / (1 - low / high);
    return a * low / (a - 1) * (1 - std::pow(low / high, a - 1)) / (1 - r);
}

double pareto_exponent(const PowerLaw& law) {
    double low = 0.01;
    double high = 20;
    for (int i = 0; i < 100; ++i) {
        const double a = (low + high) / 2;
        (pareto_mean(a, law.mean * kShortest, law.most) > law.mean ? low : high) = a;
    }
    return low;
}

std::int32_t draw(const PowerLaw& law, double exponent, base::Random& random) {
    const double low = law.mean * kShortest;
    const double part = random.uniform() * (1 - std::pow(low / law.most, exponent));
    const double value = low * std::pow(1 - part, -1 / exponent);
    return std::max(1, static_cast<std::int32_t>(std::lround(value)));
}

}  // namespace

base::Result<LiveCluster> live_cluster(std::int32_t machines, const std::string& type,
                                       const std::string& model, double mean_context) {
    LiveCluster live;
    TRY(live.model, spec::find_model(model, spec::WeightFormat::f16));
    live.cluster.name = fmt::format("{} x {}", machines, type);
    for (std::int32_t n = 0; n < machines; ++n) {
        spec::NodeSpec node;
        node.name = fmt::format("n{}", n);
        node.type = type;
        TRY(const spec::MachineType machine, spec::find_machine_type(type));
        node.memory_bytes = machine.memory_bytes;
        live.cluster.nodes.push_back(node);
    }
    for (std::int32_t from = spec::kCoordinator; from < machines; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < machines; ++to) {
            if (from != to) live.cluster.links.push_back({from, to, kLinkBytesPerS, kLatencyS});
        }
    }
    TRY(auto costs, spec::RooflineCost::make(live.cluster, live.model, mean_context));
    live.costs = std::make_unique<spec::RooflineCost>(std::move(costs));
    const plan::CapacityTable capacities = plan::capacity_from_costs(
        live.cluster, live.model, *live.costs, plan::Workload{}, plan::MemoryRule{});
    const std::vector<double>& kv = capacities.nodes.front().kv_tokens;
    const auto all = static_cast<std::size_t>(live.model.n_layers);
    if (all >= kv.size() || kv[all] <= 0) {
        return base::invalid(fmt::format("{} does not fit into one {}", model, type));
    }
    live.kv_tokens = kv[all];
    return live;
}

sim::LengthSource power_law_lengths(const PowerLaw& prompt, const PowerLaw& output) {
    base::Random random(7);
    const double by_prompt = pareto_exponent(prompt);
    const double by_output = pareto_exponent(output);
    std::vector<sim::RequestLength> rows;
    for (int i = 0; i < kRows; ++i) {
        const std::int32_t in = draw(prompt, by_prompt, random);
        rows.push_back({in, draw(output, by_output, random)});
    }
    return {std::move(rows), sim::LengthOrder::sampled};
}

std::vector<sim::Arrival> live_arrivals(const sim::LengthSource& lengths,
                                        const LiveStream& stream) {
    base::Random random(stream.seed);
    std::vector<sim::Arrival> arrivals;
    double at_s = stream.begin_s;
    while (true) {
        at_s += sim::draw_gap(random, stream.requests_per_s, stream.cv);
        if (at_s >= stream.end_s) return arrivals;
        const auto row =
            static_cast<std::size_t>(random.uniform() * static_cast<double>(lengths.rows().size()));
        arrivals.push_back({at_s, lengths.rows()[row], stream.priority});
    }
}

std::vector<sim::Arrival> together(std::vector<sim::Arrival> a,
                                   const std::vector<sim::Arrival>& b) {
    a.insert(a.end(), b.begin(), b.end());
    std::stable_sort(a.begin(), a.end(), [](const sim::Arrival& one, const sim::Arrival& other) {
        return one.at_s < other.at_s;
    });
    return a;
}

namespace {

// Equal machines, each with the whole model; those of the end are spare.
sim::HelixSetup live_setup(const LiveCase& wanted) {
    sim::HelixSetup setup;
    setup.cluster = &wanted.cluster->cluster;
    setup.costs = wanted.cluster->costs.get();
    setup.model = wanted.cluster->model;
    const std::size_t machines = setup.cluster->nodes.size();
    setup.placement.layers.assign(machines, {0, setup.model.n_layers});
    setup.kv_tokens.assign(machines, wanted.cluster->kv_tokens);
    setup.disk_bytes_per_s.assign(machines, wanted.disk_bytes_per_s);
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(machines); ++n) {
        setup.flows.push_back({spec::kCoordinator, n, 1});
        setup.flows.push_back({n, spec::kCoordinator, 1});
        if (wanted.scale && n >= wanted.machines_at_first) setup.spares.push_back(n);
    }
    setup.overheads.lone_decode_doubles = false;
    setup.coordinator.balance = wanted.balance;
    if (wanted.as_llumnix) core::balance_as_llumnix(setup.coordinator);
    setup.coordinator.scale = wanted.scale;
    setup.start_delay_s = wanted.start_delay_s;
    setup.worker.report_interval = base::from_ms(500);
    std::vector<sim::RequestLength> rows;
    for (const sim::Arrival& arrival : wanted.arrivals) rows.push_back(arrival.length);
    setup.lengths = sim::LengthSource(std::move(rows), sim::LengthOrder::sampled);
    setup.seed = wanted.seed;
    setup.warmup_s = wanted.warmup_s;
    setup.duration_s = wanted.duration_s + kDrainS;
    setup.until_done = true;
    setup.online = sim::OnlineLoad{};
    setup.online->process = sim::ArrivalProcess::listed;
    setup.online->tokens_per_s = 1;
    setup.online->listed = wanted.arrivals;
    if (!wanted.priorities) {
        for (sim::Arrival& arrival : setup.online->listed) arrival.priority = 0;
    }
    return setup;
}

void add_latencies(LiveLatencies& all, const LiveLatencies& more) {
    all.ttft.merge(more.ttft);
    all.tpot.merge(more.tpot);
    all.stall.merge(more.stall);
    all.total.merge(more.total);
}

LiveResult run_apart(const LiveCase& wanted) {
    LiveResult all;
    const std::size_t machines = wanted.cluster->cluster.nodes.size();
    for (std::size_t n = 0; n < machines; ++n) {
        LiveCase own = wanted;
        own.cluster = wanted.own_queues;
        own.own_queues = nullptr;
        own.arrivals.clear();
        for (std::size_t i = n; i < wanted.arrivals.size(); i += machines) {
            own.arrivals.push_back(wanted.arrivals[i]);
        }
        if (own.arrivals.empty()) continue;
        const LiveResult one = run_live(own);
        if (!one.error.empty()) return one;
        add_latencies(all.all, one.all);
        add_latencies(all.longest, one.longest);
        for (std::size_t p = 0; p < all.by_priority.size(); ++p) {
            add_latencies(all.by_priority[p], one.by_priority[p]);
        }
        all.requests += one.requests;
        all.unfinished += one.unfinished;
        all.preempted += one.preempted;
        all.lost_s += one.lost_s;
        all.lost_tokens += one.lost_tokens;
    }
    return all;
}

}  // namespace

LiveResult run_live(const LiveCase& wanted) {
    if (wanted.own_queues != nullptr) return run_apart(wanted);
    LiveResult result;
    const auto router = core::find_router(wanted.router);
    if (!router.ok()) {
        result.error = router.error().message;
        return result;
    }
    sim::HelixSetup setup = live_setup(wanted);
    setup.coordinator.router = router->make;
    LiveWatch watch(wanted, sim::helix_start_s(setup),
                    wanted.cluster->kv_tokens / setup.worker.block_size);
    setup.observer = &watch;
    auto report = sim::run_helix(setup);
    if (!report.ok()) {
        result.error = report.error().message;
        return result;
    }
    watch.finish(result);
    result.report = std::move(*report);
    return result;
}

std::vector<LiveResult> run_all(const std::vector<LiveCase>& wanted, int threads,
                                const std::function<void(const std::string&)>& say) {
    std::vector<LiveResult> results(wanted.size());
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> done{0};
    std::mutex saying;
    const auto work = [&] {
        for (std::size_t i = next++; i < wanted.size(); i = next++) {
            results[i] = run_live(wanted[i]);
            const std::size_t n = ++done;
            if (!say || (n % 10 != 0 && n != wanted.size())) continue;
            const std::lock_guard<std::mutex> lock(saying);
            say(fmt::format("{} of {} runs", n, wanted.size()));
        }
    };
    const auto most = base::usable_threads();
    std::vector<std::thread> others;
    for (int t = 1; t < (threads > 0 ? threads : most); ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    return results;
}

}  // namespace helix::lab
