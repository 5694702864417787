#include "core/coordinator/balancer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/coordinator/defragment.h"
#include "core/routing/widest_path.h"

namespace helix::core {
namespace {

// The first in the queue waits this long for requests to end before others move for it. Under load
// requests soon end, and moving takes memory of its own meanwhile.
constexpr Duration kStuck = base::from_ms(500);

BalanceRequest seen_by_balance(const RequestState& state, std::int64_t tokens, bool movable) {
    BalanceRequest request;
    request.id = state.request.id;
    request.priority = state.request.priority;
    request.order = state.order;
    request.path = state.migration ? state.migration->path : state.path;
    request.tokens = tokens;
    request.sequences = static_cast<std::int32_t>(live_sequences(state));
    request.movable = movable && !request.path.empty();
    return request;
}

}  // namespace

void Balancer::balance(TimePoint now) {
    if (!config_.balance.enabled || !config_.migration.enabled || now < next_balance_) return;
    next_balance_ = now + config_.balance.interval;
    if (placements_.epoch() == 0 || requests_.empty()) return;
    if (as_llumnix()) {
        BalanceView view = node_view(now);
        if (give_up_recovered(now, view)) view = node_view(now);
        return even_out(now, std::move(view));
    }
    make_room(now);
    even_out(now, node_view(now));
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

BalanceView Balancer::node_view(TimePoint now) {
    BalanceView view;
    view.graph = &placements_.router()->graph();
    view.shared_kv_layers = config_.shared_kv_layers;
    view.nodes = loads_.now();
    const auto node_at = [&](WorkerId worker) -> NodeLoad* {
        const std::int32_t node = view.graph->node_of(worker);
        return node < 0 ? nullptr : &view.nodes[static_cast<std::size_t>(node)];
    };
    for (const PipelineNode& node : view.graph->nodes()) {
        const std::optional<TimePoint> last = preempter_.last_at(node.worker);
        view.preempts.push_back(last && now - *last < config_.balance.interval * 4);
    }
    if (as_llumnix()) add_head(view);
    // Room is being made there for the waiting request, so nobody else is to take it.
    if (!clearing_.moving.empty() && requests_.contains(clearing_.waiting)) {
        const RequestState& head = *requests_.by_id(clearing_.waiting);
        const std::int64_t tokens = expected_blocks(head) * config_.block_size;
        for (const Stage& stage : clearing_.pipeline) {
            NodeLoad* node = node_at(stage.worker);
            if (node == nullptr || head.running) continue;
            node->add({UsageKind::head_of_line, tokens, demand_.kv_layers(stage.layers)});
        }
    }
    return view;
}

std::int64_t Balancer::expected_blocks(const RequestState& state) const {
    return demand_.mean_blocks(
        KvDemand::of(state, demand_.expected_blocks(state, state.prefix.cached)));
}

void Balancer::add_head(BalanceView& view) {
    const RequestState* head = head_without_room();
    if (head == nullptr) return;
    const StageFits could = room_.could_hold(*head);
    const WidePath freest = widest_path(*view.graph, [&](std::int32_t e) {
        const std::int32_t to = view.graph->edge(e).to;
        if (to == spec::kCoordinator) return std::numeric_limits<double>::infinity();
        const Stage stage = view.graph->stage(view.graph->edge(e));
        if (!could(stage.worker, stage.layers)) return -1.0;
        return width_of(view.nodes[static_cast<std::size_t>(to)].freeness());
    });
    const std::int64_t tokens = demand_.tokens_held(*head);
    for (const std::int32_t e : freest.path) {
        const std::int32_t to = view.graph->edge(e).to;
        if (to == spec::kCoordinator) continue;
        const Stage stage = view.graph->stage(view.graph->edge(e));
        view.nodes[static_cast<std::size_t>(to)].add(
            {UsageKind::head_of_line, tokens, demand_.kv_layers(stage.layers)});
    }
}

// The last round is soon over, and then the request has moved.
bool Balancer::give_up_recovered(TimePoint now, const BalanceView& view) {
    std::vector<MoveUnderWay> moves;
    for (const RequestId id : migrations_.all()) {
        const RequestState& state = *requests_.by_id(id);
        if (state.migration->begun_for != MigrationReason::balance ||
            state.migration->phase == MigrationPhase::last_round) {
            continue;
        }
        MoveUnderWay& move = moves.emplace_back();
        move.id = id;
        const BalanceRequest seen = seen_by_balance(state, demand_.tokens_held(state), false);
        for (const Stage& stage : state.pipeline) {
            const std::int32_t node = view.graph->node_of(stage.worker);
            if (node < 0 || stage_at(state.migration->pipeline, stage.worker) != nullptr) continue;
            move.leaves.emplace_back(node, usage_at(seen, demand_.kv_layers(stage.layers)));
        }
    }
    const std::vector<RequestId> recovered =
        recovered_moves(view.nodes, moves, config_.balance.pairing);
    for (const RequestId id : recovered) {
        migrations_.abort_migration(
            now, requests_.at(id), {MigrationCause::source_recovered, "its source has room again"});
    }
    return !recovered.empty();
}

void Balancer::add_requests(BalanceView& view) const {
    std::vector<char> source(view.nodes.size());
    for (std::size_t n = 0; n < source.size(); ++n) {
        source[n] = is_source(view, n, config_.balance.pairing) ? 1 : 0;
    }
    if (std::find(source.begin(), source.end(), 1) == source.end()) return;
    for (const auto& [id, state] : std::as_const(requests_)) {
        if (!state.running || state.swapped || state.migration) continue;
        const bool leaves = std::any_of(state.path.begin(), state.path.end(), [&](std::int32_t e) {
            const std::int32_t to = view.graph->edge(e).to;
            return to != spec::kCoordinator && source[static_cast<std::size_t>(to)] != 0;
        });
        if (!leaves || !migrations_.moves_now(state)) continue;
        const std::int64_t tokens = demand_.tokens_held(state);
        view.requests.push_back(seen_by_balance(state, tokens, true));
    }
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
    view.shared_kv_layers = config_.shared_kv_layers;
    for (const PipelineNode& node : view.graph->nodes()) {
        const auto it = fleet_.find(node.worker);
        if (it == fleet_.end()) {
            view.room.push_back(0);
            continue;
        }
        const KvEstimate& kv = it->second.kv;
        const double most = kv.most_pages(config_.policy.kv_high_water);
        const std::int64_t kept = is_high(*head) ? 0 : paths_.headroom_pages(node.worker);
        view.room.push_back(static_cast<std::int64_t>(most) - kv.used() - kept);
    }
    for (const auto& [id, state] : requests_) {
        if (!state.running || state.swapped) continue;
        const std::int64_t blocks = expected_blocks(state);
        view.requests.push_back({seen_by_balance(state, 0, migrations_.moves_now(state)), blocks});
    }
    const StageFits could = room_.could_hold(*head);
    const RoomPlan plan = plan_room(view, expected_blocks(*head), config_.balance.room_moves, could,
                                    may_move(now, MigrationReason::room));
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

void Balancer::even_out(TimePoint now, BalanceView view) {
    add_requests(view);
    if (view.requests.empty()) return;
    for (const Move& move : plan_moves(std::move(view), config_.balance.pairing,
                                       may_move(now, MigrationReason::balance))) {
        migrations_.begin_migration(now, requests_.at(move.id), move.to, MigrationReason::balance);
    }
}

}  // namespace helix::core
