// This file knows which sequences a worker has: how they begin, fork, go back and end.

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/kv/admission.h"
#include "core/kv/block_hash.h"
#include "core/worker/worker_state.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

constexpr std::size_t kMaxTombstones = 4096;

Refusal failed(std::string reason) {
    return {true, StuckCause::failed, std::move(reason)};
}

// A sequence that never began here, or ended long ago, gets no answer.
Refusal unknown() {
    return {true, StuckCause::failed, ""};
}

bool are_sound(const Sequence& seq, const StageInput& input) {
    const auto count = static_cast<std::int32_t>(input.tokens.size());
    if (count == 0 || (seq.layers.begin > 0 && input.payload.rows != input.tokens.size())) {
        return false;
    }
    return input.drafts >= 0 && input.drafts < count && input.draws >= 1 &&
           (input.drafts == 0 || input.draws == 1);
}

// Returns what is wrong with rows; empty if they are sound.
std::string wrong_rows(const StageInput& input) {
    const auto count = static_cast<std::int32_t>(input.tokens.size());
    if (input.drafts == 0 && input.draws == 1) return "input without its activations";
    return std::to_string(input.drafts) + " drafts and " + std::to_string(input.draws) +
           " draws on " + std::to_string(count) + " rows";
}

}  // namespace

// ---- rows
// -----------------------------------------------------------------------------------------

void Worker::Impl::accept(const StageInput& input, Sequence* found,
                          std::vector<WorkerAction>& actions) {
    const auto drop = [&](const Refusal& refusal) {
        release_use(input.payload.buffer, actions);
        refuse(input.key, refusal, actions);
    };
    // A live sequence was not freed, so the tombstones need not be asked for every row.
    if (found == nullptr) {
        const Refusal refusal = begin(input, actions);
        if (refusal.refused) return drop(refusal);
        found = sequences.find(input.key);
    }
    Sequence& seq = *found;
    if (seq.ending) return drop(unknown());
    if (input.first_position != seq.arrived) {
        const bool drafted =
            input.first_position >= seq.certain && input.first_position < seq.arrived;
        if (drafted && (seq.in_batch || !seq.pending.empty())) {
            free_sequence(input.key, actions);
            return drop(failed("rows in place of drafts that were not computed yet"));
        }
        if (drafted) {
            roll_back(seq, input.first_position);
        } else if (!planted(PlantedBug::duplicate_rows_accepted)) {
            return drop(unknown());  // they came twice
        }
    }
    if (!are_sound(seq, input)) {
        free_sequence(input.key, actions);
        return drop(failed(wrong_rows(input)));
    }
    if (std::exchange(seq.away, false)) round_trip.comes_back(seq.away_in, seq.left, now);
    const auto count = static_cast<std::int32_t>(input.tokens.size());
    seq.arrived += count;
    waiting_rows += count;
    seq.certain = seq.arrived - input.drafts;
    if (seq.keeps_history) {
        std::vector<Token>& history = seq.more().history;
        history.insert(history.end(), input.tokens.begin(), input.tokens.end());
    }
    const bool was_ready = seq.is_ready();
    const Turn turn = next_turn(seq);
    PendingRows& rows = seq.pending.push_back();
    rows.first_position = input.first_position;
    rows.tokens = input.tokens;
    rows.sample = input.sample;
    rows.drafts = input.drafts;
    rows.draws = input.draws;
    rows.payload = input.payload;
    rows.turn = turn;
    if (!was_ready && seq.is_ready()) ready_list(seq).add(seq);
}

Turn Worker::Impl::next_turn(const Sequence& seq) {
    const std::uint64_t order = turn(next_arrival++, seq.high_priority);
    if (seq.key.member == 0) return {round, order};
    std::uint64_t& next = group_rounds[seq.key.request];
    const std::uint64_t mine = std::max(next, round);
    next = mine + 1;
    return {mine, order};
}

void Worker::Impl::refuse(const SequenceKey& key, const Refusal& refusal,
                          std::vector<WorkerAction>& actions) {
    if (refusal.reason.empty()) return;
    bury(key);
    actions.push_back(SendToCoordinator{SequenceStuck{key, refusal.cause, refusal.reason}});
}

void Worker::Impl::roll_back(Sequence& seq, std::int32_t rows) {
    CHECK(!seq.in_batch && seq.pending.empty());
    CHECK(rows >= seq.certain && rows < seq.arrived && seq.arrived == seq.computed);
    seq.arrived = seq.computed = rows;
    note_past_prompt(seq);
    if (seq.keeps_history) seq.more().history.resize(static_cast<std::size_t>(rows));
}

// ---- how they begin
// -------------------------------------------------------------------------------

Refusal Worker::Impl::begin(const StageInput& input, std::vector<WorkerAction>& actions) {
    if (tombstone_set.contains(input.key)) return unknown();
    if (input.parent >= 0) {
        const auto member = static_cast<std::uint32_t>(input.parent);
        return fork({input.key.request, input.key.attempt, member}, input.key,
                    input.first_position);
    }
    if (input.start) return admit(input, actions);
    if (input.first_position != 0) return unknown();  // it was freed long ago
    return failed("first rows came without the sequence's description");
}

Refusal Worker::Impl::admit(const StageInput& input, std::vector<WorkerAction>& actions) {
    // A newer attempt replaces the older ones of its request; an older one comes too late.
    for (const SequenceKey& other : sequences.group(input.key.request)) {
        if (other.attempt > input.key.attempt) return failed("superseded by a newer attempt");
        if (other.attempt < input.key.attempt) free_sequence(other, actions);
    }
    drop_older_parcels(input.key);
    if (!ready) return failed("this worker holds no layers now");
    const Pipeline& pipeline = input.start->pipeline;
    const auto stage = std::find_if(pipeline.begin(), pipeline.end(),
                                    [&](const Stage& s) { return s.worker == self; });
    if (stage == pipeline.end()) return failed("this worker is not in the pipeline");
    if (stage->layers.empty() || !layers.contains(stage->layers)) {
        return failed("this worker does not hold the pipeline's layers");
    }
    const LayerRange kv_layers = config.kv_layers(stage->layers);
    if (kv_layers.empty()) return failed("the layers read keys and values that are not here");
    const std::int32_t cached = input.start->cached_tokens();
    if (cached != input.first_position) {
        return failed("first rows at " + std::to_string(input.first_position) +
                      " after a prefix of " + std::to_string(cached) + " tokens");
    }
    Sequence& sequence = sequences.make(
        input.key, input.start, static_cast<std::size_t>(stage - pipeline.begin()), kv_layers,
        config.block_size, config.prefix_cache, config.list_pages, window_of(*input.start));
    sequence.began = now;
    Refusal refusal = find_pages(sequence);
    if (refusal.refused) {
        sequences.drop(sequence);
    } else {
        note_past_prompt(sequences.add(sequence));
    }
    return refusal;
}

Refusal Worker::Impl::find_pages(Sequence& seq) {
    const std::int32_t cached = seq.start->cached_tokens();
    if (cached > 0 && adopt(seq)) return {};
    const std::int64_t prompt = seq.table.least_pages_to_hold(seq.prompt_tokens);
    if (can_allocate(prompt, pool.free_pages(), pool.total()) == KvRoom::never) {
        return failed("the prompt's " + std::to_string(seq.prompt_tokens) + " tokens need " +
                      std::to_string(prompt) + " KV pages on this worker, which has " +
                      std::to_string(pool.total()) + " and keeps " +
                      std::to_string(kv_watermark(pool.total())) + " of them free");
    }
    if (cached > 0 && !share_prefix(seq)) {
        return {true, StuckCause::prefix_lost,
                "the KV of the first " + std::to_string(cached) + " tokens is not kept here"};
    }
    return {};
}

bool Worker::Impl::share_prefix(Sequence& seq) {
    const std::span<const Token> tokens = seq.start->cached;
    const auto size = static_cast<std::size_t>(config.block_size);
    if (!config.prefix_cache || tokens.size() % size != 0) return false;
    std::vector<const std::vector<PageId>*> blocks;
    base::Hash128 hash = PrefixCache::root(seq.layers);
    for (std::size_t at = 0; at < tokens.size(); at += size) {
        hash = block_hash(hash, tokens.subspan(at, size));
        blocks.push_back(prefixes.find(hash));
        if (blocks.back() == nullptr) return false;
        seq.more().blocks_kept.push_back(hash);
    }
    for (const std::vector<PageId>* pages : blocks) seq.table.share_block(*pages, pool);
    seq.begin_after_cached();
    give_back_needless(seq);
    return true;
}

void Worker::Impl::give_back_needless(Sequence& seq) {
    const bool any = seq.table.give_back_before(seq.next_row(), pool);
    if (any && config.prefix_cache) prefixes.note_idle(pool);
}

void Worker::Impl::keep_prefix(Sequence& seq) {
    const std::size_t full = seq.table.full_blocks(std::min(seq.computed, seq.certain));
    const auto size = static_cast<std::size_t>(config.block_size);
    SequenceExtras& more = seq.more();
    if (more.blocks_kept.size() < full) seq.table.name_pages(pool);
    while (more.blocks_kept.size() < full) {
        const std::size_t block = more.blocks_kept.size();
        const base::Hash128 before =
            block == 0 ? PrefixCache::root(seq.layers) : more.blocks_kept.back();
        const auto tokens = std::span<const Token>(more.history).subspan(block * size, size);
        more.blocks_kept.push_back(block_hash(before, tokens));
        const auto depth = static_cast<std::int64_t>(block);
        // What a migration brought may lack pages, and nobody could begin with such a block.
        if (depth < seq.table.blocks_given_back()) continue;
        prefixes.add(more.blocks_kept.back(), depth, seq.table.block(depth), pool);
    }
}

Refusal Worker::Impl::fork(const SequenceKey& parent_key, const SequenceKey& child,
                           std::int32_t tokens) {
    Sequence* parent = sequences.find(parent_key);
    if (parent == nullptr || parent->ending) return unknown();
    if (tokens < 1 || parent->computed < tokens) {
        return failed("member " + std::to_string(parent_key.member) + " has " +
                      std::to_string(parent->computed) + " tokens here, of which " +
                      std::to_string(tokens) + " are to be shared");
    }
    KvBlockPool& holder = parent->swapped ? host_pages : pool;
    note_past_prompt(sequences.add(sequences.make(*parent, child, tokens, holder)));
    if (parent->swapped) return_with(parent_key, child);
    return {};
}

void Worker::Impl::on_fork(const ForkSequences& message, std::vector<WorkerAction>& actions) {
    for (const std::uint32_t member : message.members) {
        const SequenceKey child{message.parent.request, message.parent.attempt, member};
        // The child's rows may have come first, and it may have ended since.
        if (sequences.find(child) != nullptr || tombstone_set.contains(child)) continue;
        refuse(child, fork(message.parent, child, message.tokens), actions);
    }
}

// ---- how they end
// ---------------------------------------------------------------------------------

void Worker::Impl::free_sequence(const SequenceKey& key, std::vector<WorkerAction>& actions) {
    Sequence* seq = sequences.find(key);
    if (seq == nullptr) return;
    if (seq->in_batch) {
        end_after_batch(*seq);
    } else {
        erase_sequence(*seq, actions);
    }
}

void Worker::Impl::erase_sequence(Sequence& seq, std::vector<WorkerAction>& actions) {
    CHECK(!seq.in_batch);
    if (seq.is_ready()) ready_list(seq).remove(seq);
    if (seq.past_prompt) --n_past_prompt;
    if (seq.away) round_trip.ends(seq.away_in);
    if (seq.ending) --n_ending;
    for (std::size_t i = 0; i < seq.pending.size(); ++i) {
        const PendingRows& rows = seq.pending.at(i);
        waiting_rows -= rows.size();
        release_use(rows.payload.buffer, actions);
    }
    if (!seq.ending || !planted(PlantedBug::pages_leaked_on_cancel)) {
        seq.table.release_all(seq.swapped ? host_pages : pool);
    }
    if (config.prefix_cache) prefixes.note_idle(pool);
    const SequenceKey key = seq.key;
    sequences.erase(key);
    if (!sequences.has(key.request)) group_rounds.erase(key.request);
    if (!timed.empty()) tell_times(key, actions);
}

void Worker::Impl::tell_times(const SequenceKey& gone, std::vector<WorkerAction>& actions) {
    const auto found = timed.find({gone.request, gone.attempt});
    if (found == timed.end()) return;
    for (const SequenceKey& other : sequences.group(gone.request)) {
        if (other.attempt == gone.attempt) return;
    }
    const AttemptTimes& times = found->second;
    actions.push_back(SendToCoordinator{StageTimes{
        found->first, times.batches, times.rows, times.busy, now - times.first, now - times.last}});
    timed.erase(found);
}

void Worker::Impl::drop_everything(std::vector<WorkerAction>& actions) {
    CHECK(!running);
    while (!sequences.empty()) {
        Sequence& first = *sequences.begin()->second;
        bury(first.key);
        erase_sequence(first, actions);
    }
    leaving.clear();
    leavers.clear();
    returning.clear();
    swaps_deferred.clear();
    drop_all_parcels();
    prefixes.clear(pool);
    CHECK(pool.used() == 0 && host_pages.used() == 0);
}

void Worker::Impl::bury(const SequenceKey& key) {
    if (!tombstone_set.insert(key).second) return;
    tombstones.push_back(key);
    if (tombstones.size() > kMaxTombstones) {
        tombstone_set.erase(tombstones.front());
        tombstones.pop_front();
    }
}

void Worker::Impl::release_use(std::uint64_t buffer, std::vector<WorkerAction>& actions) {
    if (buffer == 0) return;
    if (buffer_uses.release(buffer)) actions.push_back(ReleaseBuffer{buffer});
}

}  // namespace helix::core
