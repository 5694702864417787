// The life of a request: admission, routing, tokens, preemption, end.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/coordinator/coordinator_state.h"
#include "core/kv/admission.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

// Tokens that come where only prompts are computed until the request has been handed over.
constexpr std::int64_t kBeforeMove = 32;

}  // namespace

std::int64_t Coordinator::Impl::blocks_for(std::int64_t tokens) const {
    return (tokens + config.block_size - 1) / config.block_size;
}

std::int64_t Coordinator::Impl::blocks_needed(const RequestState& state,
                                              std::int64_t output) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    if (!state.group) return blocks_for(prompt + output);
    const std::int64_t shared = prompt / config.block_size;
    return shared + state.group->sequences(state.request) * (blocks_for(prompt + output) - shared);
}

std::int64_t Coordinator::Impl::expected_blocks(const RequestState& state,
                                                std::int32_t cached) const {
    const auto so_far = static_cast<std::int64_t>(state.group ? state.group->longest_output()
                                                              : state.output.size());
    const auto more = static_cast<std::int64_t>(mean_output) + 1;
    const std::int64_t output = std::min<std::int64_t>(state.max_output, so_far + more);
    // Cached blocks are whole and are shared.
    return blocks_needed(state, output) - cached / config.block_size;
}

std::int64_t Coordinator::Impl::expected_pages(const RequestState& state,
                                               const Stage& stage) const {
    std::int64_t blocks = expected_blocks(state, state.prefix.cached);
    if (only_prefills(stage.worker)) {
        const auto so_far = static_cast<std::int64_t>(state.group ? state.group->longest_output()
                                                                  : state.output.size());
        const std::int64_t output = std::min<std::int64_t>(state.max_output, so_far + kBeforeMove);
        blocks = std::min(blocks,
                          blocks_needed(state, output) - state.prefix.cached / config.block_size);
    }
    return blocks * stage.layers.size();
}

void Coordinator::Impl::charge(RequestState& state) {
    for (const Stage& stage : state.pipeline) {
        workers.at(stage.worker).kv.set(state.request.id, expected_pages(state, stage));
    }
    if (state.migration) charge_move(state);
}

std::int64_t Coordinator::Impl::most_pages(WorkerId worker) const {
    const std::int64_t total = workers.at(worker).kv.total();
    return total - kv_watermark(total);
}

bool Coordinator::Impl::holds(std::int64_t blocks) const {
    return router->can_route([&](WorkerId worker, LayerRange layers) {
        return usable(worker, layers) && blocks * layers.size() <= most_pages(worker);
    });
}

std::int32_t Coordinator::Impl::output_limit(const RequestState& state,
                                             std::int64_t capacity_now) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    const std::int64_t room = capacity_now - prompt;
    std::int64_t high = std::min<std::int64_t>(
        state.request.max_tokens > 0 ? state.request.max_tokens : room, room);
    if (!state.group || high <= 0 || holds(blocks_needed(state, high))) {
        return static_cast<std::int32_t>(high);
    }
    std::int64_t low = 0;  // the prompt alone fits
    while (low + 1 < high) {
        const std::int64_t middle = (low + high) / 2;
        (holds(blocks_needed(state, middle)) ? low : high) = middle;
    }
    return static_cast<std::int32_t>(low);
}

std::int64_t Coordinator::Impl::capacity_tokens() const {
    std::int64_t low = 0;
    std::int64_t high = blocks_for(config.context_length);
    if (!holds(1)) return 0;
    while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (holds(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return std::min<std::int64_t>(low * config.block_size, config.context_length);
}

// ---- arrival
// --------------------------------------------------------------------------------------

void Coordinator::Impl::on(TimePoint now, const Submitted& event,
                           std::vector<CoordinatorAction>& actions) {
    const Request& request = event.request;
    CHECK(!requests.contains(request.id));
    CHECK(request.n >= 1 && (!request.beam || request.beam->width >= request.n));
    CHECK(!request.score_prompt || request.sampling.n_logprobs >= 0);
    const auto prompt = static_cast<std::int32_t>(request.prompt.size());
    const auto refuse = [&](RejectReason reason, const std::string& message,
                            std::int32_t retry_after_s) {
        ++rejected;
        actions.push_back(RejectRequest{request.id, reason, message, retry_after_s});
    };
    if (prompt == 0) return refuse(RejectReason::never_fits, "the prompt has no tokens", 0);
    if (prompt + std::max(request.max_tokens, 1) > config.context_length) {
        return refuse(RejectReason::too_long,
                      "the prompt has " + std::to_string(prompt) + " tokens and " +
                          std::to_string(std::max(request.max_tokens, 1)) +
                          " are asked for; the model's context is " +
                          std::to_string(config.context_length) + " tokens",
                      0);
    }
    const std::string full = queue_is_full(request);
    if (!full.empty()) return refuse(RejectReason::queue_full, full, 1);
    RequestState state;
    state.request = request;
    state.order = next_order++;
    state.last_progress = now;
    if (request.is_group()) state.group = std::make_unique<SequenceGroup>(request);
    state.place = shares.enter(request.priority, request.client, tokens_asked(state));
    enqueue(state);
    ++unaccepted;
    requests.emplace(request.id, std::move(state));
}

void Coordinator::Impl::reject(RequestId id, RejectReason reason, const std::string& message,
                               std::vector<CoordinatorAction>& actions) {
    const auto it = requests.find(id);
    CHECK(it != requests.end() && !it->second.accepted && !it->second.running);
    dequeue(it->second);
    requests.erase(it);
    --unaccepted;
    ++rejected;
    actions.push_back(
        RejectRequest{id, reason, message, reason == RejectReason::unavailable ? 5 : 0});
}

// ---- waiting -> running
// ---------------------------------------------------------------------------

const PlacementAbility& Coordinator::Impl::ability() const {
    if (!capacity_cache) capacity_cache = {capacity_tokens(), find_roles_kept()};
    return *capacity_cache;
}

bool Coordinator::Impl::admit(RequestState& state, std::int64_t capacity_now,
                              std::vector<CoordinatorAction>& actions) {
    const std::int64_t wanted = static_cast<std::int64_t>(state.request.prompt.size()) +
                                std::max(state.request.max_tokens, 1);
    if (wanted > capacity_now) {
        reject(state.request.id, RejectReason::never_fits,
               "prompt and answer may take " + std::to_string(wanted) +
                   " tokens; the KV memory of this placement holds " +
                   std::to_string(capacity_now) + " for one request",
               actions);
        return false;
    }
    const std::int32_t least = std::max(state.request.max_tokens, 1);
    const std::int64_t all = blocks_needed(state, least);
    if (state.group && (!holds(all) || !holds_later(all))) {
        reject(state.request.id, RejectReason::never_fits,
               "prompt and " + std::to_string(state.group->sequences(state.request)) +
                   (state.group->beams ? " beams" : " answers") + " of up to " +
                   std::to_string(least) + " tokens are more than the KV memory of this placement" +
                   " holds for one request; ask for fewer or shorter ones",
               actions);
        return false;
    }
    state.accepted = true;
    --unaccepted;
    actions.push_back(AcceptRequest{state.request.id});
    return true;
}

// Starts waiting requests in order until the first that finds no pipeline with room (FEATURES V8: a
// later, smaller one does not overtake, or the large one would starve).
void Coordinator::Impl::dispatch(TimePoint now, std::vector<CoordinatorAction>& actions) {
    swap_in(now, actions);
    if (epoch_in_force == 0 || waiting.empty()) return;
    const std::int64_t capacity_now = capacity();
    if (capacity_now == 0) return;  // a worker is missing; a plan is on its way
    const std::int64_t lasting = lasting_capacity(capacity_now);
    served_last = now;
    bool blocked = (pending && pending->disrupts) || preempted_in_step || !swapped.empty();
    if (!blocked && quarantine) start_suspect(now, capacity_now, lasting, actions);
    std::set<std::uint64_t> held_back;  // clients
    bool groups_held_back = false;
    for (auto it = waiting.begin(); it != waiting.end() && !(blocked && unaccepted == 0);) {
        RequestState& state = requests.at(it->second);
        ++it;
        if (!state.accepted && !admit(state, lasting, actions)) continue;
        // Other groups have to end first, and then they come in their order; requests of one
        // sequence need not wait for them.
        if (state.group && (groups_held_back || over_the_groups_share(state))) {
            groups_held_back = true;
            continue;
        }
        // So with its client's; those of others go on.
        const std::uint64_t client = state.request.client;
        if (held_back.contains(client) || over_its_share(state)) {
            held_back.insert(client);
            continue;
        }
        const std::int64_t more = sequences_of(state);
        // What is more by itself runs alone.
        blocked =
            blocked || (sequences_running > 0 && sequences_running + more > config.max_running);
        if (blocked) continue;  // go on only to accept or refuse the others
        if (!prompts.open()) {
            prompts.note_blocked();
            blocked = true;
            continue;
        }
        if (!still_fits(now, state, capacity_now, lasting, actions)) continue;
        // One that waits for a place of its own holds up nobody elsewhere.
        if (is_suspect(state) && !set_apart(now, state)) continue;
        Path path = route(now, state);
        blocked = path.empty() && !is_suspect(state);
        if (path.empty()) continue;
        start(now, state, std::move(path), actions);
    }
}

WorkerLoad Coordinator::Impl::load_of(WorkerId worker) const {
    const WorkerState& state = workers.at(worker);
    return {static_cast<std::int64_t>(state.kv.requests()), static_cast<double>(state.kv.used()),
            state.kv.total(), &state.last_report};
}

// What the request says of itself is looked up when a stage is asked about.
StageFits Coordinator::Impl::fits_for(const RequestState& state) const {
    const std::int64_t full = blocks_needed(state, state.max_output);
    const bool apart = prefilled_apart(state);
    return [this, full, apart, &state](WorkerId worker, LayerRange layers) {
        if (!usable(worker, layers) || full * layers.size() > most_pages(worker)) return false;
        if (!keeps_apart(state, worker)) return false;
        if (apart && has_role(worker, spec::NodeRole::decode)) return false;
        const std::int64_t kept = std::max(is_high(state) ? 0 : headroom_pages(worker),
                                           pages_left_by_groups(state, worker));
        const KvEstimate& kv = workers.at(worker).kv;
        const bool idle = kv.requests() == 0;
        return kv.can_add(expected_pages(state, {worker, layers}) + (idle ? 0 : kept),
                          config.kv_high_water);
    };
}

Path Coordinator::Impl::route(TimePoint now, RequestState& state) {
    const std::vector<PrefixHit> hits = prefix_hits(state);
    Path path = prefer_prefix(state, hits);
    if (path.empty()) {
        const RoutedRequest request{state.request.id, now, length(state), state.request.priority};
        const StageFits fits = fits_for(state);
        const WorkerLoads loads = [&](WorkerId worker) { return load_of(worker); };
        if (roles_kept()) path = router->route(request, prefill_only(fits), loads);
        if (path.empty()) path = router->route(request, fits, loads);
        for (const PrefixHit& hit : hits) {
            if (hit.path == path) state.prefix.cached = hit.blocks * config.block_size;
        }
    }
    CHECK(path.empty() || router->graph().is_path(path));
    return path;
}

void Coordinator::Impl::going(RequestState& state, std::int64_t rows) {
    state.rows_going = rows;
    router->on_sent(state.path, rows);
}

void Coordinator::Impl::start(TimePoint now, RequestState& state, Path path,
                              std::vector<CoordinatorAction>& actions) {
    dequeue(state);
    shares.started(state.request.priority, state.place);
    state.running = true;
    if (is_high(state)) high_running.insert(state.request.id);
    add_running(state, sequences_of(state));
    state.attempt = ++state.last_attempt;
    state.moved = false;
    state.hands_over_again.clear();
    state.pipeline = router->graph().pipeline(path);
    state.path = std::move(path);
    state.last_progress = now;
    state.started = now;
    state.prompt_rows = length(state) - state.prefix.cached;
    going(state, state.prompt_rows);
    prompts.start(state.prompt_rows);
    for (const Stage& stage : state.pipeline) {
        workers.at(stage.worker).kv.add(state.request.id, expected_pages(state, stage));
    }
    StageInput input;
    input.key = {state.request.id, state.attempt};
    input.tokens = state.request.prompt;
    input.tokens.append(state.output.begin(), state.output.end());
    if (planted(PlantedBug::recompute_off_by_one) && !state.output.empty()) {
        std::copy_backward(
            input.tokens.end() - static_cast<std::ptrdiff_t>(state.output.size()) - 1,
            input.tokens.end() - 1, input.tokens.end());
    }
    input.sample = true;
    SequenceStart begin{state.pipeline, static_cast<std::int32_t>(state.request.prompt.size()),
                        sampling_of(state)};
    input.first_position = state.prefix.cached;
    begin.cached.assign(input.tokens.begin(), input.tokens.begin() + state.prefix.cached);
    input.tokens.erase_front(begin.cached.size());
    if (planted(PlantedBug::sampling_seed_lost) && !state.output.empty()) begin.sampling.seed = 0;
    if (unscored(state) > 0) begin.scored = state.request.prompt;
    begin.high_priority = is_high(state);
    if (state.group) begin_group(state, input);
    input.start = std::move(begin);
    outbox[state.pipeline.front().worker].inputs.push_back(std::move(input));
    prepare_guesses(state, actions);
    actions.push_back(
        RequestRouted{state.request.id, state.pipeline, state.attempt, state.prefix.cached});
}

// ---- tokens
// ---------------------------------------------------------------------------------------

void Coordinator::Impl::on_tokens(TimePoint now, WorkerId worker, const TokensProduced& message,
                                  std::vector<CoordinatorAction>& actions) {
    on_scored(worker, message.scored, actions);
    for (std::size_t i = 0; i < message.tokens.size(); ++i) {
        const ProducedToken& token = message.tokens[i];
        const auto it = requests.find(token.key.request);
        if (it == requests.end()) continue;  // ended meanwhile
        RequestState& state = it->second;
        // Fencing: only the running attempt's last stage, only the position that is next.
        if (!state.running) continue;
        const bool stale =
            token.key.attempt != state.attempt || state.pipeline.back().worker != worker;
        if (stale && !planted(PlantedBug::stale_attempt_accepted)) continue;
        if (stale) state.attempt = token.key.attempt;  // only with the planted bug
        const std::string wrong = unasked(state, message.tokens, i);
        if (!wrong.empty()) return cut_off(now, worker, wrong, actions);
        if (state.group) {
            on_group_token(now, state, token, actions);
            continue;
        }
        const bool twice =
            planted(PlantedBug::token_streamed_twice) && token.position < length(state);
        if (token.position != length(state) && !twice) continue;
        if (came_unscored(now, state, actions)) continue;
        const bool first = state.prompt_rows > 0;
        if (first) {
            prompts.finish(state.prompt_rows, now - state.started);
            state.prompt_rows = 0;
            note_first_token(state);
        }
        state.output.push_back(token.token);
        note_progress(state);
        if (first) note_prefilled(now, state);
        if (state.rows_going > 0) {  // the first token of these rows
            router->on_returned(state.path, state.rows_going, now - state.last_progress);
            state.rows_going = 0;
        }
        // After right guesses several come at once, one after another.
        const bool last = i + 1 == message.tokens.size() || message.tokens[i + 1].key != token.key;
        state.draws_on = note_drawn(state, token.token, last) && !last;
        state.last_progress = now;
        const auto n_output = static_cast<std::int32_t>(state.output.size());
        actions.push_back(StreamToken{state.request.id, n_output - 1, token});
        const auto& stops = state.request.stop_tokens;
        const bool is_stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
        if (is_stop && n_output > state.request.min_tokens) {
            finish(state.request.id, FinishReason::stop, "", actions);
        } else if (n_output >= state.max_output) {
            finish(state.request.id, FinishReason::length, "", actions);
        } else if (last && !state.swapped && !hold(now, state, actions)) {
            continue_decoding(now, state, actions);
        }
    }
}

// A prompt that is computed again after a preemption begins with those that were passed on before.
void Coordinator::Impl::on_scored(WorkerId worker, const std::vector<ProducedToken>& tokens,
                                  std::vector<CoordinatorAction>& actions) {
    for (const ProducedToken& token : tokens) {
        const auto it = requests.find(token.key.request);
        if (it == requests.end()) continue;
        RequestState& state = it->second;
        const bool stale = !state.running || token.key.attempt != state.attempt ||
                           state.pipeline.back().worker != worker;
        if (stale || unscored(state) == 0 || token.position != state.scored + 1) continue;
        ++state.scored;
        auto* last = actions.empty() ? nullptr : std::get_if<ScoreTokens>(&actions.back());
        if (last == nullptr || last->id != state.request.id) {
            last = &std::get<ScoreTokens>(actions.emplace_back(ScoreTokens{state.request.id, {}}));
        }
        last->tokens.push_back(token);
        // A beam search asks for more.
        auto& top = last->tokens.back().top;
        const auto wanted = static_cast<std::size_t>(state.request.sampling.n_logprobs);
        if (top.size() > wanted) top.resize(wanted);
    }
}

// ---- preemption and trouble
// -----------------------------------------------------------------------

void Coordinator::Impl::on_stuck(TimePoint now, WorkerId worker, const SequenceStuck& message,
                                 std::vector<CoordinatorAction>& actions) {
    const auto it = requests.find(message.key.request);
    if (it == requests.end() || !it->second.running || it->second.attempt != message.key.attempt) {
        return;
    }
    if (!workers.at(worker).kv.charges().contains(message.key.request)) return;  // not its stage
    if (message.cause == StuckCause::out_of_pages) {
        preempt_one(now, worker, actions);
    } else if (message.cause == StuckCause::no_swap_space) {
        if (it->second.swapped) set_back(it->second, actions);
    } else if (message.cause == StuckCause::prefix_lost) {
        restart_without_prefix(it->second, actions);
    } else {
        const bool invalid = message.cause == StuckCause::invalid_request;
        finish(message.key.request, invalid ? FinishReason::invalid_request : FinishReason::error,
               "worker " + workers.at(worker).joined.node.name + ": " + message.reason, actions);
    }
}

void Coordinator::Impl::leave_pipeline(RequestState& state,
                                       std::vector<CoordinatorAction>& actions) {
    CHECK(state.running);
    if (state.migration) drop_migration(state, "it left its pipeline", actions);
    if (state.prompt_rows == 0) remember_prefix(state, length(state) - 1);
    prompts.abandon(state.prompt_rows);
    state.prompt_rows = 0;
    forget_guesses(state);
    if (state.swapped) end_swap(state);
    swapped_in.erase(state.request.id);
    for (const Stage& stage : state.pipeline) workers.at(stage.worker).kv.remove(state.request.id);
    to_stages(state, FreeSequences{keys_at_workers(state)}, actions);
    drop_unsent(state, [&](const StageInput& input) {
        return input.key.request == state.request.id && input.key.attempt == state.attempt;
    });
    add_running(state, -sequences_of(state));
    router->on_ended(state.path, state.rows_going);
    state.path.clear();
    state.rows_going = 0;
    state.draws_on = false;
    state.pipeline.clear();
    state.running = false;
    note_place(state);
    high_running.erase(state.request.id);
}

// ---- the end
// --------------------------------------------------------------------------------------

void Coordinator::Impl::on(TimePoint, const Ended& event, std::vector<CoordinatorAction>& actions) {
    const auto it = requests.find(event.id);
    if (it == requests.end()) return;  // it ended by itself at the same time
    RequestState& state = it->second;
    if (!event.choice || !state.group) return finish(event.id, event.reason, "", actions);
    if (state.group->beams) return;  // its choices are streamed whole, at the end
    const GroupMember* member = state.group->find(static_cast<std::uint32_t>(*event.choice));
    if (member != nullptr) end_choice(state, *member, event.reason, actions);
}

void Coordinator::Impl::finish(RequestId id, FinishReason reason, const std::string& error,
                               std::vector<CoordinatorAction>& actions) {
    const auto it = requests.find(id);
    CHECK(it != requests.end());
    RequestState& state = it->second;
    if (state.running) {
        leave_pipeline(state, actions);
    } else {
        dequeue(state);
        if (!state.accepted) --unaccepted;
    }
    end_quarantine(state);
    accused.erase(id);
    if (is_whole(reason)) {
        ++finished;
        if (!state.group) note_output(state.output.size());
    } else if (reason != FinishReason::cancelled) {
        ++failed;
    }
    if (state.guessing && state.guessing->told > 0) actions.push_back(ForgetDrafts{id});
    actions.push_back(FinishRequest{id, reason, error});
    requests.erase(it);
}

}  // namespace helix::core
