#include "core/coordinator/adoption.h"

#include <algorithm>
#include <utility>

#include "base/planted_bug.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

// Returns the tokens that the worker drew for the member, at rising positions. The first one of
// each member was drawn with the prompt, by member 0.
std::vector<ProducedToken> drawn_for(std::uint32_t member,
                                     const std::map<std::uint32_t, SequenceHeld>& members) {
    std::vector<ProducedToken> drawn;
    for (const auto& [number, held] : members) {
        for (const ProducedToken& token : held.drawn) {
            if (token.key.member == member) drawn.push_back(token);
        }
    }
    return drawn;
}

// Says whether the tokens are at positions without gaps, and such as the model has.
bool are_sound(const std::vector<ProducedToken>& drawn, std::int32_t vocab_size) {
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const Token token = drawn[i].token;
        if (token < 0 || (vocab_size > 0 && token >= vocab_size)) return false;
        if (i > 0 && drawn[i].position != drawn[i - 1].position + 1) return false;
    }
    return true;
}

Token token_at(const std::vector<Token>& prompt, const std::vector<Token>& output,
               std::int32_t position) {
    const auto at = static_cast<std::size_t>(position);
    return at < prompt.size() ? prompt[at] : output[at - prompt.size()];
}

}  // namespace

void Adoption::note(WorkerId worker, const std::vector<SequenceHeld>& sequences) {
    for (const SequenceHeld& held : sequences) {
        Kept& kept = kept_[held.key.request];
        if (held.key.attempt < kept.attempt) continue;
        if (held.key.attempt > kept.attempt) kept.at.clear();
        kept.attempt = held.key.attempt;
        kept.at[worker].insert_or_assign(held.key.member, held);
    }
}

void Adoption::note_drawn(WorkerId worker, const std::vector<ProducedToken>& tokens) {
    for (const ProducedToken& token : tokens) {
        const auto kept = kept_.find(token.key.request);
        if (kept == kept_.end() || kept->second.attempt != token.key.attempt) continue;
        const auto here = kept->second.at.find(worker);
        if (here == kept->second.at.end()) continue;
        Members& members = here->second;
        const std::vector<ProducedToken> before = drawn_for(token.key.member, members);
        const bool next = before.empty() || token.position == before.back().position + 1;
        auto by = members.find(token.key.member);
        if (by == members.end()) by = members.find(0);
        if (next && by != members.end()) by->second.drawn.push_back(token);
    }
}

void Adoption::forget(WorkerId worker) {
    for (auto at = kept_.begin(); at != kept_.end();) {
        at->second.at.erase(worker);
        at = at->second.at.empty() ? kept_.erase(at) : std::next(at);
    }
}

bool Adoption::is_kept(WorkerId worker, const SequenceKey& key) const {
    const auto found = kept_.find(key.request);
    if (found == kept_.end()) return planted(PlantedBug::unclaimed_kept);
    return found->second.attempt == key.attempt && found->second.at.contains(worker);
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
    const Kept kept = std::move(found->second);
    kept_.erase(found);
    const std::optional<Way> way = way_of(state, kept);
    if (!way.has_value()) {
        free_kept(kept, nullptr);
        return false;
    }
    // The answers that have ended are not there any more for their client.
    if (state.group && !way->sequences.empty()) free_kept(kept, state.group.get());
    run(now, state, *way);
    return true;
}

void Adoption::free_kept(const Kept& kept, const SequenceGroup* but_members_of) {
    for (const auto& [worker, members] : kept.at) {
        FreeSequences freed;
        for (const auto& [number, held] : members) {
            const bool stays = but_members_of != nullptr && but_members_of->find(number) != nullptr;
            if (!stays) freed.keys.push_back(held.key);
        }
        if (!freed.keys.empty() && fleet_.contains(worker)) out_.to_worker(worker, freed);
    }
}

// ---- what there is
// --------------------------------------------------------------------------------

bool Adoption::is_up(const Pipeline& pipeline) const {
    std::int32_t next = 0;
    for (const Stage& stage : pipeline) {
        if (stage.layers.begin != next || config_.kv_layers(stage.layers).empty()) return false;
        next = stage.layers.end;
        const auto worker = fleet_.find(stage.worker);
        if (worker == fleet_.end() || worker->second.gone || !worker->second.ready) return false;
        if (!worker->second.kept_layers.contains(stage.layers)) return false;
    }
    for (std::size_t i = 1; i < pipeline.size(); ++i) {
        if (placements_.link_down(pipeline[i - 1].worker, pipeline[i].worker)) return false;
    }
    return next == config_.n_layers;
}

bool Adoption::is_whole(const Pipeline& pipeline, std::uint32_t member, const Kept& kept) {
    return std::all_of(pipeline.begin(), pipeline.end(), [&](const Stage& stage) {
        const auto here = kept.at.find(stage.worker);
        if (here == kept.at.end()) return false;
        const auto held = here->second.find(member);
        return held != here->second.end() && held->second.pipeline == pipeline &&
               !held->second.rows_lost;
    });
}

std::optional<std::vector<ProducedToken>> Adoption::unsaid_of(const RequestState& state,
                                                              const std::vector<Token>& output,
                                                              std::uint32_t member,
                                                              const Members& drawn_at) const {
    const std::vector<ProducedToken> drawn = drawn_for(member, drawn_at);
    if (!are_sound(drawn, config_.vocab_size)) return std::nullopt;
    const std::vector<Token>& prompt = state.request.prompt;
    const auto said = static_cast<std::int32_t>(prompt.size() + output.size());
    std::int32_t known = said;
    std::vector<ProducedToken> unsaid;
    for (const ProducedToken& token : drawn) {
        if (token.position > known) return std::nullopt;  // those between are forgotten
        if (token.position < said) {
            if (token_at(prompt, output, token.position) != token.token) return std::nullopt;
            continue;
        }
        ++known;
        unsaid.push_back(token);
    }
    return unsaid;
}

std::optional<Adoption::Way> Adoption::way_of(const RequestState& state, const Kept& kept) const {
    const bool beams = state.group && state.group->beams;
    if (beams || state.request.wants_embedding() || unscored(state) > 0) return std::nullopt;
    Way way;
    way.attempt = kept.attempt;
    way.pipeline = kept.at.begin()->second.begin()->second.pipeline;
    if (way.attempt > state.last_attempt || way.pipeline.empty() || !is_up(way.pipeline)) {
        return std::nullopt;
    }
    for (const auto& [worker, members] : kept.at) {
        for (const auto& [number, held] : members) way.swapped = way.swapped || held.swapped;
    }
    const bool found = state.group ? find_prompt(state, kept, way) || find_members(state, kept, way)
                                   : find_single(state, kept, way);
    if (!found) return std::nullopt;
    // What is swapped out has had a token (Swaps).
    const bool may_wait = way.began && !way.sequences.empty() && swaps_.fits(state, way.pipeline);
    if (way.swapped && !may_wait) return std::nullopt;
    return way;
}

bool Adoption::find_single(const RequestState& state, const Kept& kept, Way& way) const {
    if (!is_whole(way.pipeline, 0, kept)) return false;
    const Members& last = kept.at.at(way.pipeline.back().worker);
    auto unsaid = unsaid_of(state, state.output, 0, last);
    if (!unsaid.has_value()) return false;
    const SequenceHeld& rows = kept.at.at(way.pipeline.front().worker).at(0);
    const std::vector<ProducedToken>& drawn = last.at(0).drawn;
    Going going{0, std::move(*unsaid), length(state), 0};
    going.known += static_cast<std::int32_t>(going.unsaid.size());
    // The client has more than this attempt drew: a later one did.
    if (!drawn.empty() && drawn.back().position + 1 != going.known) return false;
    way.began = !drawn.empty();
    const std::int32_t known = going.known;
    const bool sent = rows.certain == known && rows.arrived == known;
    const bool next_is_due = way.began && rows.certain <= known - 1 && known - 1 <= rows.arrived;
    if (!sent && !next_is_due) return false;
    going.sent = sent ? known : known - 1;
    way.sequences.push_back(std::move(going));
    return true;
}

bool Adoption::find_prompt(const RequestState& state, const Kept& kept, Way& way) const {
    if (!is_whole(way.pipeline, 0, kept)) return false;
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    const Members& first = kept.at.at(way.pipeline.front().worker);
    const bool nothing_more = std::all_of(first.begin(), first.end(), [&](const auto& held) {
        return held.second.arrived == prompt && held.second.certain == prompt;
    });
    if (!nothing_more) return false;
    const Members& last = kept.at.at(way.pipeline.back().worker);
    const std::vector<ProducedToken>& drawn = last.at(0).drawn;
    if (drawn.empty()) return first.size() == 1 && last.size() == 1;
    if (drawn.size() != static_cast<std::size_t>(state.request.n)) return false;
    for (std::uint32_t member = 0; member < drawn.size(); ++member) {
        const ProducedToken& token = drawn[member];
        if (token.key.member != member || token.position != prompt) return false;
    }
    for (const GroupMember& member : state.group->members) {
        if (!unsaid_of(state, member.output, member.number, last).has_value()) return false;
    }
    way.began = true;
    way.first_tokens = drawn;
    return true;
}

bool Adoption::find_members(const RequestState& state, const Kept& kept, Way& way) const {
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    for (const GroupMember& member : state.group->members) {
        const std::uint32_t number = member.number;
        if (!is_whole(way.pipeline, number, kept)) return false;
        const Members& last = kept.at.at(way.pipeline.back().worker);
        auto unsaid = unsaid_of(state, member.output, number, last);
        if (!unsaid.has_value()) return false;
        const SequenceHeld& rows = kept.at.at(way.pipeline.front().worker).at(number);
        const auto known = static_cast<std::int32_t>(state.request.prompt.size() +
                                                     member.output.size() + unsaid->size());
        const bool can_be = rows.certain == rows.arrived && rows.arrived >= prompt &&
                            rows.arrived <= known && known > prompt;
        if (!can_be) return false;
        way.sequences.push_back({number, std::move(*unsaid), known, rows.arrived});
    }
    way.began = true;
    return true;
}

// ---- how it goes on
// -------------------------------------------------------------------------------

void Adoption::run(TimePoint now, RequestState& state, const Way& way) {
    if (state.group) state.group->restart(state.request);
    life_.begin_attempt(now, state, way.attempt, way.pipeline,
                        placements_.router()->graph().path(way.pipeline));
    state.route_reason = RouteReason::adopted;
    if (!way.began) {
        state.prompt_rows = length(state);
        prompts_.start(state.prompt_rows);
    }
    speculation_.prepare_drafts(state);
    out_.push(RequestRouted{state.request.id, state.pipeline, state.attempt, length(state),
                            RouteReason::adopted});
    const bool lives = state.group ? run_group(now, state, way) : run_single(now, state, way);
    if (lives && way.swapped) swaps_.swap_out(state);
}

bool Adoption::run_single(TimePoint now, RequestState& state, const Way& way) {
    const Going& going = way.sequences.front();
    for (const ProducedToken& token : going.unsaid) {
        if (planted(PlantedBug::tail_not_passed_on)) {
            state.output.push_back(token.token);
            continue;
        }
        if (!tokens_.take(now, state, token)) return false;
    }
    if (way.began) roles_.note_prefilled(now, state);
    if (going.rows_going()) {
        stages_.going(state, way.began ? 1 : state.prompt_rows);
    } else if (!way.swapped) {
        speculation_.continue_decoding(now, state);
    }
    return true;
}

bool Adoption::run_group(TimePoint now, RequestState& state, const Way& way) {
    if (!way.began) {
        stages_.going(state, state.prompt_rows);
        return true;
    }
    if (way.sequences.empty()) return tokens_.take_first_tokens(now, state, way.first_tokens);
    state.group->forked = true;
    for (const Going& going : way.sequences) {
        GroupMember* member = state.group->find(going.member);
        member->parent = -1;
        member->sent = going.sent;
    }
    for (const Going& going : way.sequences) {
        if (!tokens_.take_unsaid(state, going.member, going.unsaid)) return false;
    }
    roles_.note_prefilled(now, state);
    for (const Going& going : way.sequences) {
        GroupMember* member = state.group->find(going.member);
        if (member == nullptr) continue;  // it has ended with what was unsaid
        if (going.rows_going()) {
            stages_.member_going(now, state, *member, 1);
        } else if (!way.swapped) {
            stages_.send_member(now, state, *member);
        }
    }
    return true;
}

}  // namespace helix::core
