#include "core/invariants.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/coordinator/coordinator_impl.h"
#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

std::string name(const SequenceKey& key) {
    return "request " + std::to_string(key.request.value) + " attempt " +
           std::to_string(key.attempt) +
           (key.member == 0 ? "" : " member " + std::to_string(key.member));
}

std::string pipeline_rule(const Coordinator::Impl& state, const RequestState& request) {
    const std::string who = "request " + std::to_string(request.request.id.value);
    std::int32_t next = 0;
    std::set<WorkerId> seen;
    for (const Stage& stage : request.pipeline) {
        if (stage.layers.begin != next || stage.layers.empty()) return who + ": stages do not join";
        next = stage.layers.end;
        if (!seen.insert(stage.worker).second) return who + ": a worker twice in one pipeline";
        const auto worker = state.fleet.find(stage.worker);
        if (worker == state.fleet.end()) return who + ": runs on a lost worker";
        if (!worker->second.layers.contains(stage.layers)) {
            return who + ": runs layers its worker does not hold";
        }
        const auto charge = worker->second.kv.charge_of(request.request.id);
        if (!charge) return who + ": runs without a KV charge";
        if ((*charge == 0) != request.swapped) {
            return who + ": swapped out and charged, or neither";
        }
    }
    if (next != state.config.n_layers) return who + ": pipeline does not end at the last layer";
    return "";
}

std::string group_rule(const RequestState& request) {
    const std::string who = "request " + std::to_string(request.request.id.value);
    if (request.request.is_group() != (request.group != nullptr))
        return who + ": no group of its own";
    if (!request.group) return "";
    const SequenceGroup& group = *request.group;
    if (group.members.empty()) return who + ": a group without sequences";
    if (!request.running) return "";
    if (!group.forked) return request.swapped ? who + ": swapped out with its prompt" : "";
    const auto prompt = static_cast<std::int32_t>(request.request.prompt.size());
    std::set<std::uint32_t> numbers;
    for (const GroupMember& member : group.members) {
        const auto all = prompt + static_cast<std::int32_t>(member.output.size());
        if (!numbers.insert(member.number).second) return who + ": two members of one number";
        if (member.sent > all) return who + ": rows of tokens that are not there";
        // A member whose rows came back has sent the next ones, or waits for others or for memory.
        const bool waits =
            request.migration && request.migration->phase == MigrationPhase::last_round;
        const bool may_wait =
            waits || request.swapped || group.beams.has_value() || member.output.empty();
        if (member.rows_going == 0 && !may_wait) return who + ": a member that stands still";
        const bool held = Migrations::is_held(request);
        if (group.beams && !held && member.rows_going == 0 && member.top.empty()) {
            return who + ": a beam that waits for nothing";
        }
    }
    return "";
}

std::string links_rule(const Coordinator::Impl& state) {
    for (const auto& [one, other] : state.links.all_down()) {
        if (state.fleet.contains(one) && state.fleet.contains(other)) continue;
        return "a link is down whose end is not here";
    }
    return "";
}

std::string sequence_rule(const Worker::Impl& state, const Sequence& seq) {
    const std::string who = name(seq.key);
    if (!state.layers.contains(seq.layers)) return who + ": layers not held";
    std::int32_t next = seq.computed;
    for (std::size_t i = 0; i < seq.pending.size(); ++i) {
        const PendingRows& rows = seq.pending.at(i);
        if (rows.first_position != next) return who + ": a gap in the rows";
        next += static_cast<std::int32_t>(rows.tokens.size());
        if (rows.payload.buffer != 0 && !state.buffer_uses.contains(rows.payload.buffer)) {
            return who + ": rows of a released buffer";
        }
    }
    if (seq.certain > seq.arrived) return who + ": more rows are certain than came";
    if (next != seq.arrived) return who + ": rows that came and rows that wait differ";
    const std::size_t known = seq.extras == nullptr ? 0 : seq.extras->history.size();
    if (seq.keeps_history && known != static_cast<std::size_t>(seq.arrived)) {
        return who + ": rows and tokens differ";
    }
    if (seq.table.pages_to_hold(seq.computed) != 0) return who + ": computed rows without a page";
    if (seq.table.blocks_given_back() > seq.table.needless_blocks(seq.next_row()))
        return who + ": gave back pages that its next row attends to";
    return "";
}

std::string ready_rule(const ReadyList& list, bool decodes) {
    const ReadyList::Entry* before = nullptr;
    for (const ReadyList::Entry& entry : list.entries()) {
        const Sequence& seq = *entry.sequence;
        const std::string who = name(seq.key);
        if (!seq.is_ready()) return who + ": ready without rows";
        const PendingRows& rows = seq.pending.front();
        if (rows.turn != entry.turn) return who + ": ready with other rows";
        if (seq.is_decode(rows) != decodes) return who + ": ready in the wrong list";
        if (before != nullptr && before->turn >= entry.turn) return who + ": out of turn";
        before = &entry;
    }
    return "";
}

// Every page of the pool is referred to as often as it is listed. what: by whom, for the report.
std::string count_rule(const KvBlockPool& pool, const std::vector<std::uint32_t>& listed,
                       const std::string& what) {
    std::int64_t used = 0;
    for (PageId page = 0; page < listed.size(); ++page) {
        if (listed[page] != pool.references(page)) {
            return what + " " + std::to_string(page) + " is listed " +
                   std::to_string(listed[page]) + " times, referred to " +
                   std::to_string(pool.references(page)) + " times";
        }
        used += listed[page] > 0 ? 1 : 0;
    }
    if (used + pool.unnamed() != pool.used() + pool.cached_only())
        return what + "s in use do not match the block tables";
    if (pool.used() + pool.free_pages() != pool.total()) {
        return what + "s in use and free ones do not add up";
    }
    return "";
}

// Of the KV that is moved to and from other workers: the pages that it refers to are added to
// listed.
std::string moved_rule(const Worker::Impl& state, std::vector<std::uint32_t>& listed) {
    const auto add = [&](const std::vector<PageId>& pages) {
        for (const PageId page : pages) {
            if (page >= listed.size()) return false;
            ++listed[page];
        }
        return true;
    };
    for (const auto& [key, parcel] : state.parcels) {
        if (!add(parcel.pages()))
            return name(key) + ": waits with a page that was never handed out";
        if (key.member != 0 || parcel.key() != key) return name(key) + ": a parcel of another name";
        if (parcel.taken() && parcel.members().empty()) return name(key) + ": an empty parcel";
        const auto group = state.sequences.group(key.request);
        const std::uint32_t attempt = key.attempt;
        const bool begun =
            std::any_of(group.begin(), group.end(),
                        [attempt](const SequenceKey& other) { return other.attempt >= attempt; });
        if (begun && !parcel.taken()) return name(key) + ": runs, and its KV waits";
    }
    int paced = 0;
    for (const KvExport& one : state.exports) {
        if (!add(one.pages)) return "a page is sent that was never handed out";
        if (one.transfer != 0 && !one.held && ++paced > 1) return "two exports at once";
    }
    std::set<PageId> arriving;
    for (const KvImport& import : state.imports) {
        if (!add(import.pages)) return "a page arrives that was never handed out";
        for (const PageId page : import.pages) {
            if (!arriving.insert(page).second) return "two imports to one page";
        }
    }
    for (const auto& [key, seq] : state.sequences) {
        if (seq->swapped) continue;
        for (const PageId page : seq->table.pages()) {
            if (arriving.contains(page)) return name(key) + ": has a page that arrives";
        }
    }
    return "";
}

// What the batch under way writes nobody else reads meanwhile.
std::string writing_rule(const Worker::Impl& state) {
    if (!state.running || state.exports.empty()) return "";
    std::set<PageId> sent;
    for (const KvExport& one : state.exports) sent.insert(one.pages.begin(), one.pages.end());
    for (const RunningChunk& chunk : state.running->chunks) {
        const std::int32_t end = chunk.first_position + chunk.count;
        const std::int32_t size = state.config.block_size;
        for (std::int32_t block = chunk.first_position / size; block * size < end; ++block) {
            if (!chunk.sequence->table.named()) continue;  // nobody is sent a part of it
            for (const PageId page : chunk.sequence->table.block(block)) {
                if (sent.contains(page)) return name(chunk.sequence->key) + ": writes what is sent";
            }
        }
    }
    return "";
}

std::string page_rule(const Worker::Impl& state) {
    std::vector<std::uint32_t> pages(state.pool.untouched(), 0);
    std::vector<std::uint32_t> host_pages(state.host_pages.untouched(), 0);
    std::int64_t unnamed = 0;
    for (const auto& [key, seq] : state.sequences) {
        std::vector<std::uint32_t>& listed = seq->swapped ? host_pages : pages;
        if (!seq->table.named()) unnamed += seq->table.page_count();
        for (const PageId page : seq->table.pages()) {
            if (page == kNoPage) continue;
            if (page >= listed.size()) return name(key) + ": a page that was never handed out";
            ++listed[page];
        }
    }
    for (const PageId page : state.prefixes.pages()) {
        if (page >= pages.size()) return "the prefix cache has a page that was never handed out";
        ++pages[page];
    }
    if (unnamed != state.pool.unnamed()) return "pages without names are miscounted";
    const std::string moved = moved_rule(state, pages);
    if (!moved.empty()) return moved;
    return count_rule(state.pool, pages, "page") +
           count_rule(state.host_pages, host_pages, "page of host memory");
}

}  // namespace

std::string broken_invariant(const Coordinator& coordinator) {
    const Coordinator::Impl& state = coordinator.impl();
    for (const std::string& broken :
         {state.fleet.check(), state.queue.check(state.requests), state.swaps.check(),
          state.roles.check(state.requests), state.migrations.check(), state.preempter.check(),
          links_rule(state)}) {
        if (!broken.empty()) return broken;
    }
    std::size_t charges = 0;
    std::size_t stages = state.migrations.extra_charges();
    for (const auto& [id, request] : state.requests) {
        stages += request.pipeline.size();
        const std::string group = group_rule(request);
        if (!group.empty()) return group;
        if (!request.running) continue;
        if (!request.accepted) return "a request runs that was not accepted";
        for (const Stage& stage : request.pipeline) {
            const bool alone = state.fleet.at(stage.worker).kv.requests() == 1;
            if (is_suspect(request) && !alone) return "a suspect does not run alone";
        }
        const std::string rule = pipeline_rule(state, request);
        if (!rule.empty()) return rule;
    }
    for (const auto& [id, worker] : state.fleet) charges += worker.kv.requests();
    if (charges != stages) return "a KV charge without its stage";
    if (state.out.has_rows()) return "rows were left unsent";
    return "";
}

std::string broken_invariant(const Worker& worker) {
    const Worker::Impl& state = worker.impl();
    std::int64_t past_prompt = 0;
    std::int64_t ending = 0;
    std::int64_t waiting_rows = 0;
    std::size_t ready = 0;
    for (const auto& [key, one] : state.sequences) {
        const Sequence& seq = *one;
        if (key != seq.key) return name(key) + ": listed under another's name";
        if (seq.computed >= seq.prompt_tokens) ++past_prompt;
        if (seq.is_ready()) ++ready;
        if (seq.ending) ++ending;
        if (seq.stuck && !state.any_stuck) return name(key) + ": stuck, and nobody knows";
        waiting_rows += seq.arrived - seq.computed;
        if (seq.swapped && seq.in_batch) return name(key) + ": runs though it is swapped out";
        if (seq.in_batch && !state.running) return name(key) + ": in a batch that is over";
        if (seq.ending && !seq.in_batch) return name(key) + ": freed but still here";
        const std::string rule = sequence_rule(state, seq);
        if (!rule.empty()) return rule;
    }
    if (past_prompt != state.n_past_prompt) return "sequences past their prompt miscounted";
    if (ending != state.n_ending) return "sequences that end are miscounted";
    if (waiting_rows != state.waiting_rows) return "rows that wait are miscounted";
    const std::string list =
        ready_rule(state.ready_decodes, true) + ready_rule(state.ready_prefills, false);
    if (!list.empty()) return list;
    if (state.ready_decodes.entries().size() + state.ready_prefills.entries().size() != ready) {
        return "a sequence with rows is not listed as ready";
    }
    if (!state.running && !state.leaving.empty()) return "pages to swap out and no batch";
    const std::string page = page_rule(state);
    if (!page.empty()) return page;
    const std::string writing = writing_rule(state);
    if (!writing.empty()) return writing;
    if (!state.ready && !state.sequences.empty()) return "sequences without layers";
    for (const auto& timed : state.timed) {
        const SequenceKey& key = timed.first;
        const auto group = state.sequences.group(key.request);
        const bool here = std::any_of(group.begin(), group.end(), [&](const SequenceKey& one) {
            return one.attempt == key.attempt;
        });
        if (!here) return name(key) + " is timed and is not here";
    }
    if (!state.ready && (!state.parcels.empty() || state.moves_kv())) return "KV without layers";
    if (state.sequences.empty() && !state.running && state.imports.empty() &&
        !state.buffer_uses.empty()) {
        return "a received buffer was never released";
    }
    return "";
}

std::vector<RequestId> handovers_due(const Coordinator& coordinator) {
    return coordinator.impl().handover.waiting();
}

std::string held_when_idle(const Coordinator& coordinator) {
    const Coordinator::Impl& state = coordinator.impl();
    if (!state.requests.empty()) {
        return "request " + std::to_string(state.requests.begin()->first.value) + " is still here";
    }
    if (!state.queue.waiting().empty() || state.queue.unaccepted() != 0)
        return "the queue is not empty";
    if (state.prompts.in_flight() != 0) return "the window still counts prompts in flight";
    if (!state.migrations.all().empty()) return "a request still moves";
    if (state.queue.sequences_running() != 0) return "sequences are counted that do not run";
    for (const auto& [id, worker] : state.fleet) {
        if (worker.swap_used != 0) return "swap space is still taken";
        if (worker.kv.requests() != 0) {
            return "worker " + std::to_string(id.value) + " is still charged with KV pages";
        }
    }
    return "";
}

std::string held_when_idle(const Worker& worker) {
    const Worker::Impl& state = worker.impl();
    if (!state.sequences.empty()) return name(state.sequences.begin()->first) + " is still here";
    if (state.host_pages.used() != 0) {
        return std::to_string(state.host_pages.used()) + " pages of host memory are in use";
    }
    if (!state.leaving.empty() || !state.returning.empty() || !state.swaps_deferred.empty()) {
        return "a swap is still to come";
    }
    if (!state.parcels.empty()) return name(state.parcels.begin()->first) + ": its KV still waits";
    if (!state.exports.empty() || !state.imports.empty()) return "KV still moves";
    if (state.pool.used() != 0) return std::to_string(state.pool.used()) + " pages are in use";
    if (state.running) return "a batch still runs";
    if (!state.buffer_uses.empty()) return "a received buffer was never released";
    return "";
}

std::string ledgers_differ(const Coordinator& coordinator, WorkerId id, const Worker& worker) {
    const auto found = coordinator.impl().fleet.find(id);
    if (found == coordinator.impl().fleet.end()) return "the coordinator does not know it";
    const WorkerState& theirs = found->second;
    const Worker::Impl& own = worker.impl();
    if (!theirs.ready) return "";  // left out of the placement
    if (!own.ready || own.layers != theirs.layers) return "it holds other layers than is believed";
    if (own.pool.total() != theirs.kv.total()) return "it has another number of pages";
    if (theirs.last_report.used_pages != own.pool.used())
        return "it reported pages it does not use";
    return "";
}

}  // namespace helix::core
