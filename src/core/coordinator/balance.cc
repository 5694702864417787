// Running requests that move so that memory is used evenly and what waits finds room: the loads as
// the pure policies want them (core/coordinator/migration_pairing.h,
// core/coordinator/defragment.h), and their moves.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"
#include "core/coordinator/defragment.h"

namespace helix::core {
namespace {

// So long the first in the queue waits for requests to end before others move for it: under load
// they soon do, and moving takes memory of its own meanwhile.
constexpr Duration kStuck = base::from_ms(500);

// Where it runs, or is going to.
const Pipeline& pipeline_of(const RequestState& state) {
    return state.migration ? state.migration->pipeline : state.pipeline;
}

std::int64_t sequences_of(const RequestState& state) {
    return state.group ? static_cast<std::int64_t>(state.group->members.size()) : 1;
}

BalanceRequest seen_by_balance(const RequestState& state, std::int64_t tokens, bool movable) {
    BalanceRequest request;
    request.id = state.request.id;
    request.priority = state.request.priority;
    request.order = state.order;
    request.path = state.migration ? state.migration->path : state.path;
    request.tokens = tokens;
    request.sequences = static_cast<std::int32_t>(sequences_of(state));
    request.movable = movable && !request.path.empty();
    return request;
}

}  // namespace

void Coordinator::Impl::balance(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!config.balance.enabled || !config.migration.enabled || now < next_balance) return;
    next_balance = now + config.balance.interval;
    if (epoch_in_force == 0 || requests.empty()) return;
    make_room(now, actions);
    even_out(now, actions);
}

std::int64_t Coordinator::Impl::headroom_pages(WorkerId worker) const {
    const WorkerState& state = workers.at(worker);
    const auto& charges = state.kv.charges();
    const bool here = std::any_of(high_running.begin(), high_running.end(),
                                  [&](RequestId id) { return charges.contains(id); });
    if (!here) return 0;
    return static_cast<std::int64_t>(config.balance.headroom *
                                     static_cast<double>(state.kv.total()));
}

MayTake Coordinator::Impl::may_move(MigrationReason reason) const {
    return [this, reason](const BalanceRequest& request, WorkerId worker, LayerRange layers) {
        const RequestState& state = *requests.by_id(request.id);
        if (stage_at(state.pipeline, worker) == nullptr && !takes_moves(worker)) return false;
        return why_not_at(state, {worker, layers}, reason).empty();
    };
}

// ---- room for what waits
// -----------------------------------------------------------------------------

RequestState* Coordinator::Impl::head_without_room() {
    if (waiting.empty() || !swapped.empty() || !prompts.open()) return nullptr;
    if (preempted_in_step || capacity() == 0 || (pending && pending->disrupts)) return nullptr;
    RequestState& state = requests.at(waiting.begin()->second);
    if (!state.accepted || state.max_output == 0) return nullptr;  // it was not asked about yet
    if (is_suspect(state) || over_its_share(state) || over_the_groups_share(state)) {
        return nullptr;  // it waits for the others to end
    }
    const std::int64_t more = state.group ? state.group->sequences(state.request) : 1;
    if (sequences_running + more > config.max_running) return nullptr;
    return router->can_route(fits_for(state)) ? nullptr : &state;
}

// One request at a time; what moves for it is waited for.
void Coordinator::Impl::make_room(TimePoint now, std::vector<CoordinatorAction>& actions) {
    std::erase_if(clearing.moving, [&](RequestId id) { return !migrating.contains(id); });
    if (!clearing.moving.empty()) return;
    const RequestState* head = head_without_room();
    if (head == nullptr || head->request.id != clearing.waiting) {
        clearing = {};
        if (head != nullptr) clearing = {head->request.id, now, {}, {}};
        return;
    }
    clearing.pipeline.clear();
    if (now - clearing.since < kStuck) return;
    RoomView view;
    view.graph = &router->graph();
    for (const PipelineNode& node : view.graph->nodes()) {
        const auto it = workers.find(node.worker);
        if (it == workers.end()) {
            view.room.push_back(0);
            continue;
        }
        const KvEstimate& kv = it->second.kv;
        const double most = config.kv_high_water * static_cast<double>(kv.total());
        const std::int64_t kept = is_high(*head) ? 0 : headroom_pages(node.worker);
        view.room.push_back(static_cast<std::int64_t>(most) - kv.used() - kept);
    }
    for (const auto& [id, state] : requests) {
        if (!state.running || state.swapped) continue;
        const std::int64_t blocks = expected_blocks(state, state.prefix.cached);
        view.requests.push_back({seen_by_balance(state, 0, moves_now(state)), blocks});
    }
    const std::int64_t full = blocks_needed(*head, head->max_output);
    const bool apart = prefilled_apart(*head);
    const StageFits may_hold = [&](WorkerId worker, LayerRange layers) {
        if (apart && has_role(worker, spec::NodeRole::decode)) return false;
        return usable(worker, layers) && full * layers.size() <= most_pages(worker);
    };
    const RoomPlan plan =
        plan_room(view, expected_blocks(*head, head->prefix.cached), config.balance.room_moves,
                  may_hold, may_move(MigrationReason::room));
    if (plan.moves.empty()) return;
    clearing.pipeline = router->graph().pipeline(plan.path);
    for (const Move& move : plan.moves) {
        if (begin_migration(now, requests.at(move.id), move.to, MigrationReason::room, actions)) {
            clearing.moving.push_back(move.id);
        }
    }
}

// ---- even use
// ---------------------------------------------------------------------------------------

BalanceView Coordinator::Impl::balance_view(TimePoint now) const {
    BalanceView view;
    view.graph = &router->graph();
    const auto node_at = [&](WorkerId worker) -> NodeLoad* {
        const std::int32_t node = view.graph->node_of(worker);
        return node < 0 ? nullptr : &view.nodes[static_cast<std::size_t>(node)];
    };
    for (const PipelineNode& node : view.graph->nodes()) {
        const auto it = workers.find(node.worker);
        const std::int64_t pages = it == workers.end() ? 0 : it->second.kv.total();
        const std::int64_t memory = pages * config.block_size;
        const auto headroom =
            static_cast<std::int64_t>(config.balance.headroom * static_cast<double>(memory));
        view.nodes.emplace_back(std::max(1, node.layers.size()), memory, headroom);
        const bool emptied = it != workers.end() && it->second.draining;
        if (emptied) view.nodes.back().add({UsageKind::draining});
        const auto last = last_preemption.find(node.worker);
        view.preempts.push_back(last != last_preemption.end() &&
                                now - last->second < config.balance.interval * 4);
    }
    for (const auto& [id, state] : requests) {
        if (!state.running || state.swapped) continue;
        const std::int64_t tokens = blocks_held(state) * config.block_size;
        view.requests.push_back(seen_by_balance(state, tokens, moves_now(state)));
        for (const Stage& stage : pipeline_of(state)) {
            NodeLoad* node = node_at(stage.worker);
            if (node == nullptr) continue;
            node->add(usage_at(view.requests.back(), stage.layers.size()));
        }
    }
    // Room is being made for it there: nobody else is to take it.
    if (!clearing.moving.empty() && requests.contains(clearing.waiting)) {
        const RequestState& head = *requests.by_id(clearing.waiting);
        const std::int64_t tokens = expected_blocks(head, head.prefix.cached) * config.block_size;
        for (const Stage& stage : clearing.pipeline) {
            NodeLoad* node = node_at(stage.worker);
            if (node == nullptr || head.running) continue;
            node->add({UsageKind::head_of_line, tokens, stage.layers.size()});
        }
    }
    return view;
}

void Coordinator::Impl::even_out(TimePoint now, std::vector<CoordinatorAction>& actions) {
    for (const Move& move : plan_moves(balance_view(now), config.balance.pairing,
                                       may_move(MigrationReason::balance))) {
        begin_migration(now, requests.at(move.id), move.to, MigrationReason::balance, actions);
    }
}

// ---- more and fewer workers
// --------------------------------------------------------------------------

void Coordinator::Impl::on(TimePoint now, const WorkerNotAdded& event,
                           std::vector<CoordinatorAction>& actions) {
    if (scaler) scaler->could_not(now);
    actions.push_back(Report{"no worker was added: " + event.reason, true});
}

void Coordinator::Impl::scale(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!scaler || epoch_in_force == 0 || pending || plan_running || plan_wanted) return;
    const BalanceView loads = balance_view(now);
    const std::vector<PipelineNode>& nodes = loads.graph->nodes();
    // All that waits wants room, the first of them at one place, together spread evenly: a queue
    // that grows while memory is not yet full is too little room as well.
    const RequestState* head = head_without_room();
    std::int64_t waits = 0;
    for (const auto& [key, id] : waiting) waits += expected_blocks(requests.at(id), 0);
    waits /= std::max<std::int64_t>(1, static_cast<std::int64_t>(nodes.size()));
    if (head != nullptr) waits = std::max(waits, expected_blocks(*head, 0));
    waits *= config.block_size;
    ScaleView view;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto it = workers.find(nodes[i].worker);
        if (it == workers.end()) continue;
        view.nodes.push_back({nodes[i].worker, loads.nodes[i]});
        const Usage demand = {UsageKind::head_of_line, waits, std::max(1, nodes[i].layers.size())};
        if (waits > 0) view.nodes.back().load.add(demand);
        // Whether the others can hold the model is seen when it is planned without it.
        view.spare.push_back(it->second.drain_refused.empty() ? 1 : 0);
    }
    const std::optional<ScaleDecision> decision = scaler->step(now, view);
    if (!decision) return;
    if (decision->add) {
        actions.push_back(Report{"more room is needed: a worker is added", false});
        actions.push_back(AddWorker{});
        return;
    }
    on(now, DrainWorker{decision->stop, true, false}, actions);
}

}  // namespace helix::core
