// What happens to a cluster under load: machines join and leave, requests arrive, time passes.

#include "sim/throughput/loaded_cluster.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace helix::sim {
namespace {

constexpr double kTickS = 0.1;

core::CoordinatorConfig coordinator_config(const HelixSetup& setup) {
    core::CoordinatorConfig config = setup.coordinator;
    config.n_layers = setup.model.n_layers;
    config.shared_kv_layers = setup.model.shared_kv_layers;
    // vLLM's order of work keeps all pages (WorkerConfig::window).
    if (!setup.worker.prompts_first) config.window = setup.model.window;
    config.block_size = setup.worker.block_size;
    config.router_seed = setup.seed;
    config.context_length = std::max<std::int32_t>(
        setup.model.context_length, static_cast<std::int32_t>(setup.lengths.longest_context()) + 1);
    // The placement is given: nothing waits for joins, and what waits online waits.
    config.settle = {};
    config.max_waiting = std::numeric_limits<std::int32_t>::max();
    config.stall_timeout = base::from_seconds(1e6);
    return config;
}

SimClusterConfig cluster_config(const HelixSetup& setup) {
    SimClusterConfig config;
    config.coordinator = coordinator_config(setup);
    config.worker = setup.worker;
    config.worker.n_layers = setup.model.n_layers;
    config.worker.window = config.coordinator.window;
    config.worker.shared_kv_layers = config.coordinator.shared_kv_layers;
    config.worker.list_pages = false;
    config.check_invariants = setup.check_invariants;
    return config;
}

CostedCompute::Config compute_config(const HelixSetup& setup) {
    CostedCompute::Config config;
    config.cluster = setup.cluster;
    config.costs = setup.costs;
    config.model = setup.model;
    config.block_size = setup.worker.block_size;
    config.overheads = setup.overheads;
    config.migration_bytes_per_s = setup.migration_bytes_per_s;
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        config.load_s.push_back(loading_s(setup, n));
    }
    return config;
}

}  // namespace

LoadedCluster::LoadedCluster(const HelixSetup& setup, const SimProgress& progress)
    : setup_(setup),
      progress_(progress),
      carrier_(*setup.cluster, setup.model, clock_),
      compute_(compute_config(setup)),
      cluster_(cluster_config(setup), clock_, compute_, carrier_, *this),
      random_(setup.seed),
      lengths_(setup.lengths),
      spares_(setup.spares.rbegin(), setup.spares.rend()) {
    if (setup.observer != nullptr) {
        carrier_.set_watch(
            [this](const SimMessage& message, const ModelledCarrier::Journey& journey) {
                tell_carried(message, journey);
            });
    }
    worker_of_node_.assign(setup.cluster->nodes.size(), -1);
    const std::set<std::int32_t> later(spares_.begin(), spares_.end());
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        const auto node = static_cast<std::int32_t>(n);
        if (!setup.placement.layers[n].empty() && !later.contains(node)) add_machine(node);
    }
    window_begin_ = {base::from_seconds(helix_start_s(setup) + setup.warmup_s).ns};
    window_end_ = window_begin_ + base::from_seconds(setup.duration_s);
}

// ---- machines that come and go
// --------------------------------------------------------------------

// A node that comes back is another worker.
LoadedCluster::Machine& LoadedCluster::add_machine(std::int32_t node) {
    const auto n = static_cast<std::size_t>(node);
    Machine& machine = machines_.emplace_back();
    cluster_.add(machine);
    machine.vertex = node;
    machine.node = setup_.cluster->nodes[n];
    machine.layers = setup_.placement.layers[n];
    machine.kv_pages = static_cast<std::int64_t>(setup_.kv_tokens[n]) / setup_.worker.block_size *
                       spec::kv_layers(setup_.model, machine.layers).size();
    cluster_.start(machine);
    machine.welcome = true;
    machine.term.join(cluster_.term());
    machine.rented = now();
    if (setup_.observer != nullptr) setup_.observer->node_rented(node, now(), true);
    return machine;
}

// The routers know the links that the setup lists, as if the workers had measured them.
void LoadedCluster::join_all() {
    std::set<std::pair<std::int32_t, std::int32_t>> listed;
    for (const spec::LinkFlow& flow : setup_.flows) listed.emplace(flow.from, flow.to);
    links_of_node_.resize(setup_.cluster->nodes.size());
    for (const spec::LinkSpec& link : setup_.cluster->links) {
        if (!listed.contains({link.from, link.to})) continue;
        for (const std::int32_t node : {link.from, link.to}) {
            if (node != spec::kCoordinator) {
                links_of_node_[static_cast<std::size_t>(node)].push_back(link);
            }
        }
    }
    for (Machine& machine : machines_) join(machine);
}

void LoadedCluster::join(Machine& machine) {
    const auto node = static_cast<std::size_t>(machine.vertex);
    worker_of_node_[node] = static_cast<std::int32_t>(machine.id.value);
    core::WorkerJoined joined;
    joined.worker = machine.id;
    joined.incarnation = machine.session = machine.incarnation;
    joined.node = machine.node;
    for (spec::LinkSpec link : links_of_node_[node]) {
        bool there = true;  // both ends; the other end lists it where not
        for (std::int32_t* end : {&link.from, &link.to}) {
            if (*end == spec::kCoordinator) continue;
            *end = worker_of_node_[static_cast<std::size_t>(*end)];
            there = there && *end >= 0;
        }
        if (there) joined.links.push_back(link);
    }
    cluster_.tell(joined);
}

void LoadedCluster::on(const core::AddWorker& /*action*/) {
    if (spares_.empty()) return cluster_.tell(core::WorkerNotAdded{"no node is left"});
    Machine& machine = add_machine(spares_.back());
    spares_.pop_back();
    clock_.after(setup_.start_delay_s, [this, &machine] { join(machine); });
}

void LoadedCluster::on(const core::WorkerDrained& action) {
    if (action.remove) dismiss(action.worker);
}

// What is on its way to it, or from it, is lost.
void LoadedCluster::dismiss(WorkerId worker) {
    Machine& machine = machines_[worker.value];
    rented_s_ += rented_s(machine.rented, now());
    spares_.push_back(machine.vertex);
    worker_of_node_[static_cast<std::size_t>(machine.vertex)] = -1;
    cluster_.stop(machine);
    if (setup_.observer != nullptr) setup_.observer->node_rented(machine.vertex, now(), false);
    cluster_.tell(core::WorkerLost{worker, "was dismissed"});
}

double LoadedCluster::rented_s(TimePoint from, TimePoint until) const {
    from = std::max(from, window_begin_);
    until = std::min(until, window_end_);
    return until > from ? (until - from).seconds() : 0;
}

// ---- load
// ------------------------------------------------------------------------------------------

void LoadedCluster::submit(RequestLength length, std::int32_t priority) {
    core::Request request;
    request.id = {requests_.size()};
    request.prompt.assign(static_cast<std::size_t>(length.prompt_tokens), kAnyToken);
    // The prompt's pass yields one token, and each of the output_tokens passes one more.
    request.max_tokens = length.output_tokens + 1;
    request.priority = priority;
    requests_.push_back({now(), now(), length.prompt_tokens, false});
    if (setup_.observer != nullptr) {
        requests_.back().followed = setup_.observer->request_created(
            request.id.value, now(), length.prompt_tokens, length.output_tokens);
    }
    cluster_.tell(core::Submitted{std::move(request)});
}

base::Status LoadedCluster::plan_arrivals(double start_s) {
    if (setup_.online) {
        TRY(arrivals_, make_arrivals(*setup_.online, lengths_, start_s,
                                     setup_.warmup_s + setup_.duration_s, random_));
        arrivals_place_ = clock_.keep_places(arrivals_.size());
        await_arrival();
        return base::Ok{};
    }
    const TimePoint start{base::from_seconds(start_s).ns};
    for (std::int32_t i = 0; i < setup_.offline.initial; ++i) {
        clock_.at(start + base::from_seconds(i * setup_.offline.spacing_s), [this] { arrive(); });
    }
    return base::Ok{};
}

void LoadedCluster::await_arrival() {
    if (next_arrival_ == arrivals_.size()) return;
    const TimePoint at{base::from_seconds(arrivals_[next_arrival_].at_s).ns};
    clock_.at(at, arrivals_place_ + next_arrival_, [this] { arrive(); });
}

void LoadedCluster::arrive() {
    ++n_waiting_;
    if (setup_.online) {
        const Arrival& arrival = arrivals_[next_arrival_++];
        await_arrival();
        submit(arrival.length, arrival.priority);
    } else {
        submit(lengths_.next(random_), 0);
    }
}

// Offline: one more after every finished prompt and every finished request, while none waits.
void LoadedCluster::feed() {
    if (setup_.online || n_waiting_ > 0) return;
    clock_.after(setup_.offline.delay_s, [this] { arrive(); });
}

base::Result<SimReport> LoadedCluster::run() {
    join_all();
    clock_.after(kTickS, [this] { tick(); });
    const double start_s = helix_start_s(setup_);
    const TimePoint start{base::from_seconds(start_s).ns};
    TRY_VOID(plan_arrivals(start_s));
    while (!clock_.empty() && clock_.next() < window_end_) {
        constexpr std::uint64_t kEventsBetweenLooks = 4096;
        if (++counts_.events % kEventsBetweenLooks == 0 && setup_.stop && setup_.stop()) {
            return base::Error{base::Errc::unavailable, "the simulation was stopped"};
        }
        clock_.run_next();
        if (!serving_ && now() >= start) {
            return base::invalid("the placement does not come into force: " + trouble_);
        }
        if (setup_.until_done && counts_.finished + counts_.rejected == arrivals_.size()) break;
    }
    return report();
}

void LoadedCluster::tick() {
    cluster_.tell(core::CoordinatorTick{});
    cluster_.tick_workers();
    clock_.after(kTickS, [this] { tick(); });
    if (progress_ && ++ticks_ % 50 == 0) {
        progress_(base::Duration{now().ns}.seconds(), base::Duration{window_end_.ns}.seconds());
    }
}

SimReport LoadedCluster::report() const {
    SimReport report = counts_;
    report.decode_tokens_per_s = static_cast<double>(decode_tokens_) / setup_.duration_s;
    report.prompt_tokens_per_s = static_cast<double>(prompt_tokens_) / setup_.duration_s;
    report.ttft = ttft_.summary();
    report.tpot = tpot_.summary();
    report.max_flow_tokens_per_s = setup_.max_flow_tokens_per_s;
    if (report.admitted > 0) {
        report.mean_depth = static_cast<double>(stages_) / static_cast<double>(report.admitted);
    }
    const TimePoint from = std::max(resident_since_, window_begin_);
    const double tail_s = window_end_ > from ? (window_end_ - from).seconds() : 0;
    report.mean_resident =
        (resident_s_ + static_cast<double>(n_resident_) * tail_s) / setup_.duration_s;
    report.node_busy.resize(setup_.cluster->nodes.size());
    report.node_s = rented_s_;
    for (const Machine& machine : machines_) {
        if (machine.alive()) report.node_s += rented_s(machine.rented, now());
        report.kv_peak = std::max(report.kv_peak, machine.kv_peak);
        report.node_busy[static_cast<std::size_t>(machine.vertex)] +=
            machine.busy_s / setup_.duration_s;
    }
    return report;
}

}  // namespace helix::sim
