#include "sim/throughput/helix_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "core/invariants.h"
#include "sim/throughput/loaded_cluster.h"

namespace helix::sim {
namespace {

constexpr double kTickS = 0.1;

core::CoordinatorConfig coordinator_config(const HelixSetup& setup) {
    core::CoordinatorConfig config = setup.coordinator;
    config.n_layers = setup.model.n_layers;
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

}  // namespace

LoadedCluster::LoadedCluster(const HelixSetup& setup, const SimProgress& progress)
    : setup_(setup),
      progress_(progress),
      network_(*setup.cluster),
      coordinator_(coordinator_config(setup)),
      random_(setup.seed),
      lengths_(setup.lengths),
      wakes_(setup.overheads.wake_seed),
      spares_(setup.spares.rbegin(), setup.spares.rend()),
      worker_config_(setup.worker) {
    worker_config_.n_layers = setup.model.n_layers;
    worker_config_.list_pages = false;
    worker_of_node_.assign(setup.cluster->nodes.size(), -1);
    const std::set<std::int32_t> later(spares_.begin(), spares_.end());
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        const auto node = static_cast<std::int32_t>(n);
        if (!setup.placement.layers[n].empty() && !later.contains(node)) add_machine(node);
    }
    window_begin_ = {base::from_seconds(helix_start_s(setup) + setup.warmup_s).ns};
    window_end_ = window_begin_ + base::from_seconds(setup.duration_s);
}

void LoadedCluster::at(TimePoint when, Event::Kind kind, std::uint32_t argument) {
    events_.push({when.ns, order_++, kind, argument});
}

// ---- the cast
// -------------------------------------------------------------------------------------

// A node that comes back is another worker.
std::uint32_t LoadedCluster::add_machine(std::int32_t node) {
    const auto n = static_cast<std::size_t>(node);
    Machine machine;
    machine.node = node;
    machine.layers = setup_.placement.layers[n];
    machine.pages = static_cast<std::int64_t>(setup_.kv_tokens[n]) / worker_config_.block_size *
                    machine.layers.size();
    const auto id = static_cast<std::uint32_t>(machines_.size());
    machine.worker = std::make_unique<core::Worker>(WorkerId{id}, worker_config_);
    machine.rented = now_;
    machines_.push_back(std::move(machine));
    if (setup_.observer != nullptr) setup_.observer->node_rented(node, now_, true);
    return id;
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
    const auto n_machines = static_cast<std::uint32_t>(machines_.size());
    for (std::uint32_t w = 0; w < n_machines; ++w) join(w);
}

void LoadedCluster::join(std::uint32_t w) {
    const auto node = static_cast<std::size_t>(machines_[w].node);
    worker_of_node_[node] = static_cast<std::int32_t>(w);
    core::WorkerJoined joined;
    joined.worker = WorkerId{w};
    joined.incarnation = 1;
    joined.node = setup_.cluster->nodes[node];
    for (spec::LinkSpec link : links_of_node_[node]) {
        bool there = true;  // both ends; the other end lists it where not
        for (std::int32_t* end : {&link.from, &link.to}) {
            if (*end == spec::kCoordinator) continue;
            *end = worker_of_node_[static_cast<std::size_t>(*end)];
            there = there && *end >= 0;
        }
        if (there) joined.links.push_back(link);
    }
    step_coordinator(joined);
}

void LoadedCluster::ask_for_node() {
    if (spares_.empty()) {
        return step_coordinator(core::WorkerNotAdded{"no node is left"});
    }
    const std::uint32_t worker = add_machine(spares_.back());
    spares_.pop_back();
    at(now_ + base::from_seconds(setup_.start_delay_s), Event::Kind::started, worker);
}

// What is on its way to it, or from it, is lost.
void LoadedCluster::dismiss(WorkerId worker) {
    Machine& machine = machines_[worker.value];
    rented_s_ += rented_s(machine.rented, now_);
    spares_.push_back(machine.node);
    worker_of_node_[static_cast<std::size_t>(machine.node)] = -1;
    machine.worker.reset();
    if (setup_.observer != nullptr) setup_.observer->node_rented(machine.node, now_, false);
    step_coordinator(core::WorkerLost{worker, "was dismissed"});
}

double LoadedCluster::rented_s(TimePoint from, TimePoint until) const {
    from = std::max(from, window_begin_);
    until = std::min(until, window_end_);
    return until > from ? (until - from).seconds() : 0;
}

// Every worker keeps what the setup gives it, whatever speeds it has.
core::Planned LoadedCluster::answer(const core::PlanCluster& request) const {
    core::Planned planned;
    planned.plan = request.plan;
    constexpr std::int32_t kAway = -2;  // or on its way out
    std::vector<std::int32_t> index(machines_.size(), kAway);
    for (std::size_t i = 0; i < request.workers.size(); ++i) {
        const Machine& machine = machines_[request.workers[i].value];
        planned.placement.layers.push_back(machine.layers);
        index[request.workers[i].value] = static_cast<std::int32_t>(i);
    }
    const auto renamed = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return node;
        const std::int32_t worker = worker_of_node_[static_cast<std::size_t>(node)];
        return worker < 0 ? kAway : index[static_cast<std::size_t>(worker)];
    };
    for (const spec::LinkFlow& flow : setup_.flows) {
        const std::int32_t from = renamed(flow.from);
        const std::int32_t to = renamed(flow.to);
        if (from != kAway && to != kAway) planned.flows.push_back({from, to, flow.tokens_per_s});
    }
    return planned;
}

void LoadedCluster::submit(RequestLength length, std::int32_t priority) {
    core::Request request;
    request.id = {requests_.size()};
    request.prompt.assign(static_cast<std::size_t>(length.prompt_tokens), kAnyToken);
    // The prompt's pass yields one token, and each of the output_tokens passes one more.
    request.max_tokens = length.output_tokens + 1;
    request.priority = priority;
    requests_.push_back({now_, now_, length.prompt_tokens, false});
    if (setup_.observer != nullptr) {
        requests_.back().followed = setup_.observer->request_created(
            request.id.value, now_, length.prompt_tokens, length.output_tokens);
    }
    step_coordinator(core::Submitted{std::move(request)});
}

// ---- time
// -----------------------------------------------------------------------------------------

base::Result<SimReport> LoadedCluster::run() {
    join_all();
    at(now_ + base::from_seconds(kTickS), Event::Kind::tick, 0);
    const double start_s = helix_start_s(setup_);
    const TimePoint start{base::from_seconds(start_s).ns};
    if (setup_.online) {
        TRY(arrivals_, make_arrivals(*setup_.online, lengths_, start_s,
                                     setup_.warmup_s + setup_.duration_s, random_));
        for (const Arrival& arrival : arrivals_) {
            at({base::from_seconds(arrival.at_s).ns}, Event::Kind::arrival, 0);
        }
    } else {
        for (std::int32_t i = 0; i < setup_.offline.initial; ++i) {
            at(start + base::from_seconds(i * setup_.offline.spacing_s), Event::Kind::arrival, 0);
        }
    }
    while (!events_.empty() && events_.top().at_ns < window_end_.ns) {
        const Event event = events_.pop();
        now_.ns = event.at_ns;
        ++counts_.events;
        handle(event);
        if (!serving_ && now_ >= start) {
            return base::invalid("the placement does not come into force: " + trouble_);
        }
        if (setup_.until_done && counts_.finished + counts_.rejected == arrivals_.size()) break;
    }
    return report();
}

void LoadedCluster::handle(const Event& event) {
    switch (event.kind) {
        case Event::Kind::to_coordinator: {
            Message message = take(event.argument);
            step_coordinator(
                core::FromWorker{WorkerId{message.worker},
                                 std::move(std::get<core::CoordinatorMessage>(message.content))});
            break;
        }
        case Event::Kind::to_worker: {
            Message message = take(event.argument);
            step_worker(
                message.worker,
                core::MessageArrived{std::move(std::get<core::WorkerMessage>(message.content))});
            break;
        }
        case Event::Kind::started:
            join(event.argument);
            break;
        case Event::Kind::batch_done:
            if (setup_.observer != nullptr) tell_computed(machines_[event.argument]);
            step_worker(event.argument, std::move(machines_[event.argument].running));
            break;
        case Event::Kind::loaded: {
            const Machine& machine = machines_[event.argument];
            if (now_ < machine.loaded_at) break;  // another epoch has begun
            step_worker(event.argument,
                        core::LayersLoaded{machine.loading, machine.pages, 0, kKvFormat});
            break;
        }
        case Event::Kind::kv_exported:
            end_export(event.argument);
            break;
        case Event::Kind::worker_wakes:
            step_worker(event.argument, core::WorkerTick{});
            break;
        case Event::Kind::tick:
            tick();
            break;
        case Event::Kind::arrival:
            ++n_waiting_;
            if (setup_.online) {
                const Arrival& arrival = arrivals_[next_arrival_++];
                submit(arrival.length, arrival.priority);
            } else {
                submit(lengths_.next(random_), 0);
            }
            break;
    }
}

void LoadedCluster::tick() {
    step_coordinator(core::CoordinatorTick{});
    for (std::uint32_t w = 0; w < machines_.size(); ++w) step_worker(w, core::WorkerTick{});
    at(now_ + base::from_seconds(kTickS), Event::Kind::tick, 0);
    if (progress_ && ++ticks_ % 50 == 0) {
        progress_(base::Duration{now_.ns}.seconds(), base::Duration{window_end_.ns}.seconds());
    }
}

void LoadedCluster::step_coordinator(const core::CoordinatorEvent& event) {
    std::vector<core::CoordinatorAction> actions = std::move(spare_coordinator_actions_);
    coordinator_.step(now_, event, actions);
    if (setup_.check_invariants) CHECK(core::broken_invariant(coordinator_).empty());
    for (std::size_t i = 0; i < actions.size(); ++i) {
        if (const auto* routed = std::get_if<core::RequestRouted>(&actions[i])) {
            // A move that takes effect is told in two actions.
            const auto* move = i + 1 < actions.size()
                                   ? std::get_if<core::MigrationEnded>(&actions[i + 1])
                                   : nullptr;
            on_routed(*routed, move != nullptr && move->id == routed->id &&
                                   move->phase == core::MigrationPhase::committed);
        } else {
            perform(actions[i]);
        }
    }
    actions.clear();
    spare_coordinator_actions_ = std::move(actions);
}

void LoadedCluster::step_worker(std::uint32_t worker, const core::WorkerEvent& event) {
    if (machines_[worker].worker == nullptr) return;
    std::vector<core::WorkerAction> actions = std::move(spare_worker_actions_);
    machines_[worker].worker->step(now_, event, actions);
    if (setup_.check_invariants) {
        CHECK(core::broken_invariant(*machines_[worker].worker).empty());
    }
    for (core::WorkerAction& action : actions) perform(worker, action);
    actions.clear();
    spare_worker_actions_ = std::move(actions);
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
        if (machine.worker != nullptr) report.node_s += rented_s(machine.rented, now_);
        report.kv_peak = std::max(report.kv_peak, machine.kv_peak);
        report.node_busy[static_cast<std::size_t>(machine.node)] +=
            machine.busy_s / setup_.duration_s;
    }
    return report;
}

double helix_start_s(const HelixSetup& setup) {
    double slowest_s = 0;
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        slowest_s = std::max(slowest_s, loading_s(setup, n));
    }
    return std::ceil(slowest_s) + 1;
}

base::Result<SimReport> run_helix(const HelixSetup& setup, const SimProgress& progress) {
    TRY_VOID(check_setup(setup));
    LoadedCluster world(setup, progress);
    return world.run();
}

}  // namespace helix::sim
