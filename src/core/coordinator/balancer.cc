#include "core/coordinator/balancer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/coordinator/defragment.h"

namespace helix::core {
namespace {

// The first in the queue waits this long for requests to end before others move for it. Under load
// requests soon end, and moving takes memory of its own meanwhile.
constexpr Duration kStuck = base::from_ms(500);

// Returns the pipeline on which the request runs, or on which it is going to run.
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

void Balancer::balance(TimePoint now) {
    if (!config_.balance.enabled || !config_.migration.enabled || now < next_balance_) return;
    next_balance_ = now + config_.balance.interval;
    if (placements_.epoch() == 0 || requests_.empty()) return;
    make_room(now);
    even_out(now);
}

RequestState* Balancer::head_without_room() {
    if (queue_.waiting().empty() || !swaps_.all().empty() || !prompts_.open()) return nullptr;
    if (preempter_.preempted_in_step() || room_.capacity() == 0 ||
        (placements_.pending() && placements_.pending()->disrupts))
        return nullptr;
    RequestState& state = requests_.at(queue_.waiting().begin()->second);
    if (!state.accepted || state.max_output == 0) return nullptr;  // it has not had its first turn
    if (is_suspect(state) || queue_.over_its_share(state) || queue_.over_the_groups_share(state)) {
        return nullptr;  // it waits until others end
    }
    const std::int64_t more = state.group ? state.group->sequences(state.request) : 1;
    if (queue_.sequences_running() + more > config_.max_running) return nullptr;
    return placements_.router()->can_route(paths_.fits_for(state)) ? nullptr : &state;
}

BalanceView Balancer::balance_view(TimePoint now) const {
    BalanceView view;
    view.graph = &placements_.router()->graph();
    const auto node_at = [&](WorkerId worker) -> NodeLoad* {
        const std::int32_t node = view.graph->node_of(worker);
        return node < 0 ? nullptr : &view.nodes[static_cast<std::size_t>(node)];
    };
    for (const PipelineNode& node : view.graph->nodes()) {
        const auto it = fleet_.find(node.worker);
        const std::int64_t pages = it == fleet_.end() ? 0 : it->second.kv.total();
        const std::int64_t memory = pages * config_.block_size;
        const auto headroom =
            static_cast<std::int64_t>(config_.balance.headroom * static_cast<double>(memory));
        view.nodes.emplace_back(std::max(1, node.layers.size()), memory, headroom);
        const bool emptied = it != fleet_.end() && it->second.draining;
        if (emptied) view.nodes.back().add({UsageKind::draining});
        const std::optional<TimePoint> last = preempter_.last_at(node.worker);
        view.preempts.push_back(last && now - *last < config_.balance.interval * 4);
    }
    for (const auto& [id, state] : requests_) {
        if (!state.running || state.swapped) continue;
        const std::int64_t tokens = demand_.blocks_held(state) * config_.block_size;
        view.requests.push_back(seen_by_balance(state, tokens, migrations_.moves_now(state)));
        for (const Stage& stage : pipeline_of(state)) {
            NodeLoad* node = node_at(stage.worker);
            if (node == nullptr) continue;
            node->add(usage_at(view.requests.back(), stage.layers.size()));
        }
    }
    // Room is being made there for the waiting request, so nobody else is to take it.
    if (!clearing_.moving.empty() && requests_.contains(clearing_.waiting)) {
        const RequestState& head = *requests_.by_id(clearing_.waiting);
        const std::int64_t tokens =
            demand_.expected_blocks(head, head.prefix.cached) * config_.block_size;
        for (const Stage& stage : clearing_.pipeline) {
            NodeLoad* node = node_at(stage.worker);
            if (node == nullptr || head.running) continue;
            node->add({UsageKind::head_of_line, tokens, stage.layers.size()});
        }
    }
    return view;
}

// Room is made for one request at a time, and the next is only looked at when all that moves for
// this one has arrived.
void Balancer::make_room(TimePoint now) {
    std::erase_if(clearing_.moving, [&](RequestId id) { return !migrations_.all().contains(id); });
    if (!clearing_.moving.empty()) return;
    const RequestState* head = head_without_room();
    if (head == nullptr || head->request.id != clearing_.waiting) {
        clearing_ = {};
        if (head != nullptr) clearing_ = {head->request.id, now, {}, {}};
        return;
    }
    clearing_.pipeline.clear();
    if (now - clearing_.since < kStuck) return;
    RoomView view;
    view.graph = &placements_.router()->graph();
    for (const PipelineNode& node : view.graph->nodes()) {
        const auto it = fleet_.find(node.worker);
        if (it == fleet_.end()) {
            view.room.push_back(0);
            continue;
        }
        const KvEstimate& kv = it->second.kv;
        const double most = kv.most_pages(config_.kv_high_water);
        const std::int64_t kept = is_high(*head) ? 0 : paths_.headroom_pages(node.worker);
        view.room.push_back(static_cast<std::int64_t>(most) - kv.used() - kept);
    }
    for (const auto& [id, state] : requests_) {
        if (!state.running || state.swapped) continue;
        const std::int64_t blocks = demand_.expected_blocks(state, state.prefix.cached);
        view.requests.push_back({seen_by_balance(state, 0, migrations_.moves_now(state)), blocks});
    }
    const StageFits could = room_.could_hold(*head);
    const RoomPlan plan =
        plan_room(view, demand_.expected_blocks(*head, head->prefix.cached),
                  config_.balance.room_moves, could, may_move(now, MigrationReason::room));
    if (plan.moves.empty()) return;
    clearing_.pipeline = placements_.router()->graph().pipeline(plan.path);
    for (const Move& move : plan.moves) {
        if (migrations_.begin_migration(now, requests_.at(move.id), move.to,
                                        MigrationReason::room)) {
            clearing_.moving.push_back(move.id);
        }
    }
}

MayTake Balancer::may_move(TimePoint now, MigrationReason reason) const {
    return [this, now, reason](const BalanceRequest& request, WorkerId worker, LayerRange layers) {
        const RequestState& state = *requests_.by_id(request.id);
        const bool comes_new = stage_at(state.pipeline, worker) == nullptr;
        if (comes_new && !fleet_.takes_moves(now, worker)) return false;
        return migrations_.why_not_at(state, {worker, layers}, reason).empty();
    };
}

void Balancer::even_out(TimePoint now) {
    for (const Move& move : plan_moves(balance_view(now), config_.balance.pairing,
                                       may_move(now, MigrationReason::balance))) {
        migrations_.begin_migration(now, requests_.at(move.id), move.to, MigrationReason::balance);
    }
}

}  // namespace helix::core
