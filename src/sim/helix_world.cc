#include "sim/helix_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/random.h"
#include "core/invariants.h"
#include "core/pipeline_router.h"
#include "sim/helix_network.h"

namespace helix::sim {
namespace {

using base::TimePoint;
using core::WorkerId;

constexpr double kHeaderBytes = 64;  // of each sequence's part of a message
constexpr double kTickS = 0.1;
constexpr core::Token kAnyToken = 1;

struct Event {
    enum class Kind : std::uint32_t { to_coordinator, to_worker, batch_done, tick, arrival };
    std::int64_t at_ns = 0;
    std::uint64_t order = 0;
    Kind kind = Kind::tick;
    std::uint32_t argument = 0;  // a message's slot; a worker
    bool operator>(const Event& other) const {
        return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
};

struct Message {
    std::uint32_t worker = 0;  // the receiver, or the sender of a CoordinatorMessage
    std::variant<core::WorkerMessage, core::CoordinatorMessage> content;
    std::int32_t from = spec::kCoordinator;
    std::int32_t to = spec::kCoordinator;
    double bytes = 0;
    TimePoint posted = {};
    Passage passage = {};
};

struct Machine {
    std::int32_t node = 0;
    std::int64_t pages = 0;
    spec::LayerRange layers;
    std::unique_ptr<core::Worker> worker;
    std::uint64_t next_buffer = 1;
    core::BatchFinished running;
    NodeBatch observed;                 // the batch that runs
    std::vector<RequestWork> followed;  // its parts that the observer follows
    double busy_s = 0;                  // in the window
    double kv_peak = 0;
    std::vector<std::int32_t> decodes;  // per layer of the batch being costed
    std::vector<std::int32_t> prefills;
};

struct Live {
    TimePoint arrived;
    TimePoint last_token;
    std::int32_t prompt_tokens = 0;
    bool followed = false;  // by the observer
};

class HelixWorld {
  public:
    HelixWorld(const HelixSetup& setup, const SimProgress& progress);
    base::Result<SimReport> run();

  private:
    void at(TimePoint when, Event::Kind kind, std::uint32_t argument);
    void join_all();
    void submit(RequestLength length);
    void step_coordinator(const core::CoordinatorEvent& event);
    void step_worker(std::uint32_t worker, const core::WorkerEvent& event);
    void perform(core::CoordinatorAction& action);
    void perform(std::uint32_t worker, core::WorkerAction& action);
    void start_batch(std::uint32_t worker, const core::BatchPlan& plan);
    double batch_s(Machine& machine, const core::BatchPlan& plan) const;
    void post(Event::Kind kind, Message message);
    Message take(std::uint32_t slot);
    // For the observer, which is not null.
    void tell_carried(const Message& message);
    void tell_computed(const Machine& machine);
    void note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end);
    void send_to_peer(std::uint32_t worker, core::SendToPeer& action);
    void send_to_coordinator(std::uint32_t worker, core::SendToCoordinator& action);
    void on_token(const core::StreamToken& token);
    void on_routed(const core::RequestRouted& routed);
    void feed();
    void note_resident(std::int64_t change);
    void handle(const Event& event);
    void tick();
    core::Planned answer(const core::PlanCluster& request) const;
    bool in_window() const { return now_ >= window_begin_ && now_ <= window_end_; }
    SimReport report() const;

    const HelixSetup& setup_;
    const SimProgress& progress_;
    HelixNetwork network_;
    core::Coordinator coordinator_;
    PythonRandom random_;
    LengthSource lengths_;
    std::vector<Machine> machines_;  // by worker id
    std::vector<std::int32_t> worker_of_node_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<Message> messages_;
    std::vector<std::uint32_t> free_messages_;
    std::vector<Live> requests_;  // by id
    std::vector<Arrival> arrivals_;
    std::size_t next_arrival_ = 0;
    std::int64_t n_waiting_ = 0;  // arrived and not admitted
    TimePoint now_;
    TimePoint window_begin_;
    TimePoint window_end_;
    std::uint64_t order_ = 0;
    std::int32_t ticks_ = 0;
    bool serving_ = false;
    std::string trouble_;  // why no placement came into force
    LatencyStats ttft_;
    LatencyStats tpot_;
    std::uint64_t decode_tokens_ = 0;
    std::uint64_t prompt_tokens_ = 0;
    std::uint64_t stages_ = 0;
    std::int64_t n_resident_ = 0;
    TimePoint resident_since_;
    double resident_s_ = 0;
    SimReport counts_;
};

core::CoordinatorConfig coordinator_config(const HelixSetup& setup) {
    core::CoordinatorConfig config = setup.coordinator;
    config.n_layers = setup.model.n_layers;
    config.block_size = setup.worker.block_size;
    config.context_length = std::max<std::int32_t>(
        setup.model.context_length, static_cast<std::int32_t>(setup.lengths.longest_context()) + 1);
    // The placement is given: nothing waits for joins, and what waits online waits.
    config.settle = {};
    config.max_waiting = std::numeric_limits<std::int32_t>::max();
    config.stall_timeout = base::from_seconds(1e6);
    return config;
}

HelixWorld::HelixWorld(const HelixSetup& setup, const SimProgress& progress)
    : setup_(setup),
      progress_(progress),
      network_(*setup.cluster),
      coordinator_(coordinator_config(setup)),
      random_(setup.seed),
      lengths_(setup.lengths) {
    core::WorkerConfig config = setup.worker;
    config.n_layers = setup.model.n_layers;
    config.list_pages = false;
    worker_of_node_.assign(setup.cluster->nodes.size(), -1);
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        const spec::LayerRange layers = setup.placement.layers[n];
        if (layers.empty()) continue;
        Machine machine;
        machine.node = static_cast<std::int32_t>(n);
        machine.layers = layers;
        machine.pages =
            static_cast<std::int64_t>(setup.kv_tokens[n]) / config.block_size * layers.size();
        const auto id = static_cast<std::uint32_t>(machines_.size());
        machine.worker = std::make_unique<core::Worker>(WorkerId{id}, config);
        worker_of_node_[n] = static_cast<std::int32_t>(id);
        machines_.push_back(std::move(machine));
    }
    window_begin_ = {base::from_seconds(kHelixStart_s + setup.warmup_s).ns};
    window_end_ = window_begin_ + base::from_seconds(setup.duration_s);
}

void HelixWorld::at(TimePoint when, Event::Kind kind, std::uint32_t argument) {
    events_.push({when.ns, order_++, kind, argument});
}

// ---- the cast
// -------------------------------------------------------------------------------------

void HelixWorld::join_all() {
    for (std::size_t w = 0; w < machines_.size(); ++w) {
        core::WorkerJoined joined;
        joined.worker = WorkerId{static_cast<std::uint32_t>(w)};
        joined.incarnation = 1;
        joined.node = setup_.cluster->nodes[static_cast<std::size_t>(machines_[w].node)];
        step_coordinator(joined);
    }
}

// Every worker keeps what the setup gives it, whatever speeds it has.
core::Planned HelixWorld::answer(const core::PlanCluster& request) const {
    core::Planned planned;
    planned.plan = request.plan;
    std::vector<std::int32_t> index(machines_.size());
    for (std::size_t i = 0; i < request.workers.size(); ++i) {
        const Machine& machine = machines_[request.workers[i].value];
        planned.placement.layers.push_back(machine.layers);
        index[request.workers[i].value] = static_cast<std::int32_t>(i);
    }
    const auto renamed = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return node;
        const std::int32_t worker = worker_of_node_[static_cast<std::size_t>(node)];
        return index[static_cast<std::size_t>(worker)];
    };
    for (const spec::LinkFlow& flow : setup_.flows) {
        planned.flows.push_back({renamed(flow.from), renamed(flow.to), flow.tokens_per_s});
    }
    return planned;
}

void HelixWorld::submit(RequestLength length) {
    core::Request request;
    request.id = {requests_.size()};
    request.prompt.assign(static_cast<std::size_t>(length.prompt_tokens), kAnyToken);
    // The prompt's pass yields one token, and each of the output_tokens passes one more.
    request.max_tokens = length.output_tokens + 1;
    requests_.push_back({now_, now_, length.prompt_tokens, false});
    if (setup_.observer != nullptr) {
        requests_.back().followed = setup_.observer->request_created(
            request.id.value, now_, length.prompt_tokens, length.output_tokens);
    }
    step_coordinator(core::Submitted{std::move(request)});
}

// ---- time
// -----------------------------------------------------------------------------------------

base::Result<SimReport> HelixWorld::run() {
    join_all();
    at(now_ + base::from_seconds(kTickS), Event::Kind::tick, 0);
    const TimePoint start{base::from_seconds(kHelixStart_s).ns};
    if (setup_.online) {
        TRY(arrivals_, make_arrivals(*setup_.online, lengths_, kHelixStart_s,
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
        const Event event = events_.top();
        events_.pop();
        now_.ns = event.at_ns;
        ++counts_.events;
        handle(event);
        if (!serving_ && now_ >= start) {
            return base::invalid("the placement does not come into force: " + trouble_);
        }
    }
    return report();
}

void HelixWorld::handle(const Event& event) {
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
        case Event::Kind::batch_done:
            if (setup_.observer != nullptr) tell_computed(machines_[event.argument]);
            step_worker(event.argument, std::move(machines_[event.argument].running));
            break;
        case Event::Kind::tick:
            tick();
            break;
        case Event::Kind::arrival:
            ++n_waiting_;
            submit(setup_.online ? arrivals_[next_arrival_++].length : lengths_.next(random_));
            break;
    }
}

void HelixWorld::tick() {
    step_coordinator(core::CoordinatorTick{});
    for (std::uint32_t w = 0; w < machines_.size(); ++w) step_worker(w, core::WorkerTick{});
    at(now_ + base::from_seconds(kTickS), Event::Kind::tick, 0);
    if (progress_ && ++ticks_ % 50 == 0) {
        progress_(base::Duration{now_.ns}.seconds(), base::Duration{window_end_.ns}.seconds());
    }
}

void HelixWorld::step_coordinator(const core::CoordinatorEvent& event) {
    std::vector<core::CoordinatorAction> actions;
    coordinator_.step(now_, event, actions);
    if (setup_.check_invariants) CHECK(core::broken_invariant(coordinator_).empty());
    for (core::CoordinatorAction& action : actions) perform(action);
}

void HelixWorld::step_worker(std::uint32_t worker, const core::WorkerEvent& event) {
    std::vector<core::WorkerAction> actions;
    machines_[worker].worker->step(now_, event, actions);
    if (setup_.check_invariants) {
        CHECK(core::broken_invariant(*machines_[worker].worker).empty());
    }
    for (core::WorkerAction& action : actions) perform(worker, action);
}

// ---- what the coordinator asks for
// ----------------------------------------------------------------

void HelixWorld::post(Event::Kind kind, Message message) {
    message.posted = now_;
    message.passage = network_.send(message.from, message.to, message.bytes, now_);
    const TimePoint arrives = message.passage.arrives;
    std::uint32_t slot = 0;
    if (free_messages_.empty()) {
        slot = static_cast<std::uint32_t>(messages_.size());
        messages_.emplace_back();
    } else {
        slot = free_messages_.back();
        free_messages_.pop_back();
    }
    messages_[slot] = std::move(message);
    at(arrives, kind, slot);
}

Message HelixWorld::take(std::uint32_t slot) {
    Message message = std::move(messages_[slot]);
    free_messages_.push_back(slot);
    if (setup_.observer != nullptr) tell_carried(message);
    return message;
}

void HelixWorld::perform(core::CoordinatorAction& action) {
    if (auto* out = std::get_if<core::SendToWorker>(&action)) {
        double bytes = kHeaderBytes;
        if (const auto* inputs = std::get_if<core::StageInputs>(&out->message)) {
            for (const core::StageInput& input : inputs->inputs) {
                bytes += kHeaderBytes + static_cast<double>(input.tokens.size()) *
                                            static_cast<double>(setup_.model.token_bytes);
            }
        }
        const std::int32_t node = machines_[out->worker.value].node;
        post(Event::Kind::to_worker,
             {out->worker.value, std::move(out->message), spec::kCoordinator, node, bytes, {}, {}});
    } else if (const auto* token = std::get_if<core::StreamToken>(&action)) {
        on_token(*token);
    } else if (const auto* end = std::get_if<core::FinishRequest>(&action)) {
        const bool whole = end->reason == core::FinishReason::length;
        ++(whole ? counts_.finished : counts_.rejected);
        note_resident(-1);
        if (setup_.observer != nullptr && whole) {
            setup_.observer->request_finished(end->id.value, now_);
        } else if (setup_.observer != nullptr) {
            setup_.observer->request_rejected(end->id.value, now_);
        }
        feed();
    } else if (const auto* no = std::get_if<core::RejectRequest>(&action)) {
        ++counts_.rejected;
        --n_waiting_;
        if (setup_.observer != nullptr) setup_.observer->request_rejected(no->id.value, now_);
    } else if (const auto* routed = std::get_if<core::RequestRouted>(&action)) {
        on_routed(*routed);
    } else if (const auto* plan = std::get_if<core::PlanCluster>(&action)) {
        step_coordinator(answer(*plan));
    } else if (const auto* said = std::get_if<core::Report>(&action)) {
        if (said->text.find("in force:") != std::string::npos) serving_ = true;
        if (said->warning) trouble_ = said->text;
    }
}

void HelixWorld::on_routed(const core::RequestRouted& routed) {
    if (setup_.observer != nullptr) {
        if (routed.attempt > 1) setup_.observer->request_preempted(routed.id.value, now_);
        std::vector<PipelineStage> pipeline;
        for (const core::Stage& stage : routed.pipeline) {
            pipeline.push_back({machines_[stage.worker.value].node, stage.layers});
        }
        setup_.observer->request_admitted(routed.id.value, now_, pipeline);
    }
    if (routed.attempt > 1) {
        ++counts_.preempted;
        return;
    }
    ++counts_.admitted;
    stages_ += routed.pipeline.size();
    note_resident(1);
    --n_waiting_;
}

void HelixWorld::note_resident(std::int64_t change) {
    const TimePoint from = std::max(resident_since_, window_begin_);
    if (now_ > from) resident_s_ += static_cast<double>(n_resident_) * (now_ - from).seconds();
    resident_since_ = now_;
    n_resident_ += change;
}

void HelixWorld::on_token(const core::StreamToken& token) {
    Live& live = requests_[token.id.value];
    ++counts_.iterations;
    counts_.digest = base::mix64(counts_.digest ^ static_cast<std::uint64_t>(now_.ns)) ^
                     (token.id.value << 16) ^ static_cast<std::uint64_t>(token.index);
    if (in_window()) {
        if (token.index == 0) {
            ttft_.add((now_ - live.arrived).seconds());
            prompt_tokens_ += static_cast<std::uint64_t>(live.prompt_tokens);
        } else {
            tpot_.add((now_ - live.last_token).seconds());
            ++decode_tokens_;
        }
    }
    live.last_token = now_;
    if (setup_.observer != nullptr) setup_.observer->token(token.id.value, now_);
    if (token.index == 0) feed();
}

// Offline: one more after every finished prompt and every finished request, while none waits.
void HelixWorld::feed() {
    if (setup_.online || n_waiting_ > 0) return;
    at(now_ + base::from_seconds(setup_.offline.delay_s), Event::Kind::arrival, 0);
}

// ---- what a worker asks for
// -----------------------------------------------------------------------

void HelixWorld::perform(std::uint32_t w, core::WorkerAction& action) {
    if (const auto* batch = std::get_if<core::RunBatch>(&action)) {
        start_batch(w, batch->plan);
    } else if (auto* peer = std::get_if<core::SendToPeer>(&action)) {
        send_to_peer(w, *peer);
    } else if (auto* out = std::get_if<core::SendToCoordinator>(&action)) {
        send_to_coordinator(w, *out);
    } else if (const auto* load = std::get_if<core::LoadLayers>(&action)) {
        step_worker(w, core::LayersLoaded{load->epoch, machines_[w].pages});
    }  // ConnectPeers, ReleaseBuffer: there is nothing to connect or to hold
}

void HelixWorld::send_to_peer(std::uint32_t w, core::SendToPeer& action) {
    Machine& to = machines_[action.peer.value];
    const std::uint64_t buffer = to.next_buffer++;
    std::uint32_t rows = 0;
    for (core::StageInput& input : action.inputs.inputs) {
        input.payload.buffer = buffer;
        input.payload.first_row = rows;
        rows += input.payload.rows;
    }
    const double bytes = kHeaderBytes * static_cast<double>(1 + action.inputs.inputs.size()) +
                         rows * static_cast<double>(setup_.model.activation_bytes_per_token +
                                                    setup_.model.token_bytes);
    post(Event::Kind::to_worker, {action.peer.value,
                                  core::WorkerMessage{std::move(action.inputs)},
                                  machines_[w].node,
                                  to.node,
                                  bytes,
                                  {},
                                  {}});
}

void HelixWorld::send_to_coordinator(std::uint32_t w, core::SendToCoordinator& action) {
    Machine& machine = machines_[w];
    double bytes = kHeaderBytes;
    if (const auto* tokens = std::get_if<core::TokensProduced>(&action.message)) {
        bytes += static_cast<double>(tokens->tokens.size()) *
                 (kHeaderBytes + static_cast<double>(setup_.model.token_bytes));
    } else if (const auto* said = std::get_if<core::WorkerReport>(&action.message)) {
        if (said->total_pages > 0) {
            if (setup_.observer != nullptr) {
                setup_.observer->kv_used(machine.node, now_, static_cast<double>(said->used_pages));
            }
            machine.kv_peak = std::max(machine.kv_peak, static_cast<double>(said->used_pages) /
                                                            static_cast<double>(said->total_pages));
        }
    }
    post(Event::Kind::to_coordinator,
         {w, std::move(action.message), machine.node, spec::kCoordinator, bytes, {}, {}});
}

void HelixWorld::start_batch(std::uint32_t w, const core::BatchPlan& plan) {
    Machine& machine = machines_[w];
    const double seconds = batch_s(machine, plan);
    machine.running = {};
    machine.running.id = plan.id;
    machine.running.took = base::from_seconds(seconds);
    for (const core::BatchChunk& chunk : plan.chunks) {
        if (!chunk.sample) continue;
        const auto position = chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size());
        machine.running.tokens.push_back({chunk.key, position, kAnyToken, 0, {}});
    }
    const TimePoint end = now_ + machine.running.took;
    const TimePoint from = std::max(now_, window_begin_);
    const TimePoint until = std::min(end, window_end_);
    if (until > from) machine.busy_s += (until - from).seconds();
    at(end, Event::Kind::batch_done, w);
    if (setup_.observer != nullptr) note_batch(machine, plan, end);
}

double HelixWorld::batch_s(Machine& machine, const core::BatchPlan& plan) const {
    const auto n_layers = static_cast<std::size_t>(machine.layers.size());
    machine.decodes.assign(n_layers + 1, 0);
    machine.prefills.assign(n_layers + 1, 0);
    double rows_total = 0;
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 && chunk.first_position > 0;
        std::vector<std::int32_t>& count = decode ? machine.decodes : machine.prefills;
        count[static_cast<std::size_t>(chunk.layers.begin - machine.layers.begin)] += rows;
        count[static_cast<std::size_t>(chunk.layers.end - machine.layers.begin)] -= rows;
        rows_total += rows;
    }
    const spec::NodeSpec& node = setup_.cluster->nodes[static_cast<std::size_t>(machine.node)];
    double seconds = rows_total * static_cast<double>(setup_.model.activation_bytes_per_token) /
                     setup_.overheads.copy_bytes_per_s;
    double layer_s = 0;
    std::int32_t decodes = 0;
    std::int32_t prefills = 0;
    for (std::size_t l = 0; l < n_layers; ++l) {
        if (l == 0 || machine.decodes[l] != 0 || machine.prefills[l] != 0) {
            decodes += machine.decodes[l];
            prefills += machine.prefills[l];
            layer_s = decodes + prefills > 0 ? setup_.costs->layer_s(node, decodes, prefills) : 0;
            if (decodes == 1 && setup_.overheads.lone_decode_doubles) {
                layer_s += setup_.costs->layer_s(node, 1, 0);
            }
        }
        seconds += layer_s;
    }
    return seconds;
}

// ---- what the observer is told
// ------------------------------------------------------------------

void HelixWorld::note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end) {
    machine.observed = {machine.node, now_, end, machine.layers, 0, 0};
    machine.followed.clear();
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 && chunk.first_position > 0;
        (decode ? machine.observed.decodes : machine.observed.prompt_tokens) += rows;
        const std::uint64_t request = chunk.key.request.value;
        if (!requests_[request].followed) continue;
        machine.followed.push_back({request, machine.node, now_, end, chunk.layers, rows});
    }
}

void HelixWorld::tell_computed(const Machine& machine) {
    setup_.observer->node_computed(machine.observed);
    for (const RequestWork& work : machine.followed) setup_.observer->request_computed(work);
}

void HelixWorld::tell_carried(const Message& message) {
    const Passage& passage = message.passage;
    setup_.observer->link_carried({message.from, message.to, passage.begin, passage.end,
                                   message.bytes, passage.begin - message.posted});
    const auto moved = [&](core::RequestId id) {
        if (!requests_[id.value].followed) return;
        setup_.observer->request_moved(
            {id.value, message.from, message.to, message.posted, passage.begin, passage.arrives});
    };
    if (const auto* to_worker = std::get_if<core::WorkerMessage>(&message.content)) {
        const auto* inputs = std::get_if<core::StageInputs>(to_worker);
        if (inputs == nullptr) return;
        for (const core::StageInput& input : inputs->inputs) moved(input.key.request);
        return;
    }
    const auto& said = std::get<core::CoordinatorMessage>(message.content);
    const auto* tokens = std::get_if<core::TokensProduced>(&said);
    if (tokens == nullptr) return;
    for (const core::ProducedToken& token : tokens->tokens) moved(token.key.request);
}

SimReport HelixWorld::report() const {
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
    for (const Machine& machine : machines_) {
        report.kv_peak = std::max(report.kv_peak, machine.kv_peak);
        report.node_busy[static_cast<std::size_t>(machine.node)] =
            machine.busy_s / setup_.duration_s;
    }
    return report;
}

// Every request fits every node, and some way leads through all layers.
base::Status check_room(const HelixSetup& setup) {
    std::vector<core::PipelineRouter::Node> nodes;
    const std::int64_t wanted = setup.lengths.longest_context() + 1;
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        nodes.push_back({WorkerId{static_cast<std::uint32_t>(n)}, setup.placement.layers[n]});
        if (setup.placement.layers[n].empty()) continue;
        const std::int64_t pages =
            static_cast<std::int64_t>(setup.kv_tokens[n]) / setup.worker.block_size;
        if (pages * setup.worker.block_size >= wanted) continue;
        return base::invalid(
            fmt::format("node {} holds {} tokens of context; a request may need {}",
                        setup.cluster->nodes[n].name, pages * setup.worker.block_size, wanted));
    }
    const core::PipelineRouter router(setup.model.n_layers, nodes, setup.flows);
    if (router.min_depth() == 0) {
        return base::invalid("no pipeline runs through all layers along the flows");
    }
    return base::Ok{};
}

base::Status check(const HelixSetup& setup) {
    if (setup.lengths.empty()) return base::invalid("no request lengths are given");
    if (!(setup.duration_s > 0) || setup.warmup_s < 0) {
        return base::invalid("the window's duration must be above 0 and its warm-up not below 0");
    }
    const std::size_t n = setup.cluster->nodes.size();
    if (setup.placement.layers.size() > n || setup.kv_tokens.size() != n) {
        return base::invalid("placement and KV memory must be those of the cluster's nodes");
    }
    const HelixNetwork network(*setup.cluster);
    for (const spec::LinkFlow& flow : setup.flows) {
        for (const std::int32_t node : {flow.from, flow.to}) {
            if (node == spec::kCoordinator) continue;
            const auto slot = static_cast<std::size_t>(node);
            if (node < 0 || slot >= setup.placement.layers.size() ||
                setup.placement.layers[slot].empty()) {
                return base::invalid(fmt::format("flow over node {}, which holds no layers", node));
            }
        }
        if (!network.has_link(flow.from, flow.to)) {
            return base::invalid(
                fmt::format("flow {} -> {}: the cluster has no such link", flow.from, flow.to));
        }
    }
    return check_room(setup);
}

}  // namespace

base::Result<SimReport> run_helix(const HelixSetup& setup, const SimProgress& progress) {
    TRY_VOID(check(setup));
    HelixWorld world(setup, progress);
    return world.run();
}

}  // namespace helix::sim
