#include "core/coordinator/adoption.h"

#include <algorithm>
#include <utility>

#include "base/planted_bug.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

// Says whether the tokens are at positions without gaps, and such as the model has.
bool are_sound(const std::vector<ProducedToken>& drawn, std::int32_t vocab_size) {
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const Token token = drawn[i].token;
        if (token < 0 || (vocab_size > 0 && token >= vocab_size)) return false;
        if (i > 0 && drawn[i].position != drawn[i - 1].position + 1) return false;
    }
    return true;
}

Token token_at(const RequestState& state, std::int32_t position) {
    const auto at = static_cast<std::size_t>(position);
    const std::size_t prompt = state.request.prompt.size();
    return at < prompt ? state.request.prompt[at] : state.output[at - prompt];
}

}  // namespace

void Adoption::note(WorkerId worker, const std::vector<SequenceHeld>& sequences) {
    for (const SequenceHeld& held : sequences) {
        ByWorker& kept = kept_[held.key.request];
        const std::uint32_t newest = kept.empty() ? 0 : kept.begin()->second.key.attempt;
        if (held.key.attempt < newest) continue;
        if (held.key.attempt > newest) kept.clear();
        kept.insert_or_assign(worker, held);
    }
}

void Adoption::note_drawn(WorkerId worker, const std::vector<ProducedToken>& tokens) {
    for (const ProducedToken& token : tokens) {
        const auto kept = kept_.find(token.key.request);
        if (kept == kept_.end()) continue;
        const auto held = kept->second.find(worker);
        if (held == kept->second.end() || held->second.key != token.key) continue;
        std::vector<ProducedToken>& drawn = held->second.drawn;
        const bool next = drawn.empty() || token.position == drawn.back().position + 1;
        if (next) drawn.push_back(token);
    }
}

void Adoption::forget(WorkerId worker) {
    for (auto at = kept_.begin(); at != kept_.end();) {
        at->second.erase(worker);
        at = at->second.empty() ? kept_.erase(at) : std::next(at);
    }
}

bool Adoption::is_kept(WorkerId worker, const SequenceKey& key) const {
    const auto found = kept_.find(key.request);
    if (found == kept_.end()) return planted(PlantedBug::unclaimed_kept);
    const auto held = found->second.find(worker);
    return held != found->second.end() && held->second.key.attempt == key.attempt;
}

void Adoption::end_late(TimePoint now) {
    if (placements_.epoch() == 0 || kept_.empty()) {
        in_force_since_.reset();
    } else if (!in_force_since_) {
        in_force_since_ = now;
    } else if (now - *in_force_since_ >= config_.claim_wait) {
        kept_.clear();
    }
}

bool Adoption::adopt(TimePoint now, RequestState& state) {
    const auto found = kept_.find(state.request.id);
    if (found == kept_.end()) return false;
    const ByWorker kept = std::move(found->second);
    kept_.erase(found);
    const std::optional<Way> way = way_of(state, kept);
    if (way.has_value()) {
        run(now, state, *way);
        return true;
    }
    for (const auto& [worker, held] : kept) {
        if (fleet_.contains(worker)) out_.to_worker(worker, FreeSequences{{held.key}});
    }
    return false;
}

bool Adoption::is_whole(const Pipeline& pipeline, const SequenceKey& key,
                        const ByWorker& kept) const {
    std::int32_t next = 0;
    for (const Stage& stage : pipeline) {
        if (stage.layers.begin != next || stage.layers.empty()) return false;
        next = stage.layers.end;
        const auto worker = fleet_.find(stage.worker);
        if (worker == fleet_.end() || worker->second.gone || !worker->second.ready) return false;
        if (!worker->second.kept_layers.contains(stage.layers)) return false;
        const auto held = kept.find(stage.worker);
        const bool here = held != kept.end() && held->second.key == key &&
                          held->second.pipeline == pipeline && !held->second.swapped;
        if (!here || held->second.rows_lost) return false;
    }
    for (std::size_t i = 1; i < pipeline.size(); ++i) {
        if (placements_.link_down(pipeline[i - 1].worker, pipeline[i].worker)) return false;
    }
    return next == config_.n_layers;
}

std::optional<Adoption::Way> Adoption::way_of(const RequestState& state,
                                              const ByWorker& kept) const {
    if (state.group || state.request.wants_embedding() || unscored(state) > 0) return std::nullopt;
    const SequenceHeld& any = kept.begin()->second;
    Way way{any.key, any.pipeline, {}, false, false};
    if (way.key.member != 0 || way.key.attempt > state.last_attempt || way.pipeline.empty() ||
        !is_whole(way.pipeline, way.key, kept)) {
        return std::nullopt;
    }
    const std::vector<ProducedToken>& drawn = kept.at(way.pipeline.back().worker).drawn;
    if (!are_sound(drawn, config_.vocab_size)) return std::nullopt;
    const std::int32_t said = length(state);
    std::int32_t known = said;  // tokens of prompt and output, those that are unsaid with them
    for (const ProducedToken& token : drawn) {
        if (token.position > known) return std::nullopt;  // those between are forgotten
        if (token.position < said) {
            if (token_at(state, token.position) != token.token) return std::nullopt;
            continue;
        }
        ++known;
        way.unsaid.push_back(token);
    }
    // The client has more than this attempt drew: a later one did.
    if (!drawn.empty() && drawn.back().position + 1 != known) return std::nullopt;
    if (planted(PlantedBug::tail_not_passed_on)) way.unsaid.clear();
    way.began = !drawn.empty();
    const SequenceHeld& rows = kept.at(way.pipeline.front().worker);
    way.rows_going = rows.certain == known && rows.arrived == known;
    const bool next_is_due = way.began && rows.certain <= known - 1 && known - 1 <= rows.arrived;
    if (!way.rows_going && !next_is_due) return std::nullopt;
    return way;
}

void Adoption::run(TimePoint now, RequestState& state, const Way& way) {
    life_.begin_attempt(now, state, way.key.attempt, way.pipeline,
                        placements_.router()->graph().path(way.pipeline));
    state.route_reason = RouteReason::adopted;
    if (!way.began) {
        state.prompt_rows = length(state);
        prompts_.start(state.prompt_rows);
    }
    speculation_.prepare_drafts(state);
    out_.push(RequestRouted{state.request.id, state.pipeline, state.attempt, length(state),
                            RouteReason::adopted});
    for (const ProducedToken& token : way.unsaid) {
        if (!tokens_.take(now, state, token)) return;
    }
    if (way.began) roles_.note_prefilled(now, state);
    if (way.rows_going) {
        stages_.going(state, way.began ? 1 : state.prompt_rows);
    } else {
        speculation_.continue_decoding(now, state);
    }
}

}  // namespace helix::core
