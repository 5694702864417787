// This file deals with sequences whose KV pages are in host memory.

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "core/kv/admission.h"
#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

// Returns the pages of a group. Those that several sequences list count once.
std::int64_t distinct_pages(const std::vector<Sequence*>& group) {
    std::vector<PageId> pages;
    for (const Sequence* seq : group) {
        pages.insert(pages.end(), seq->table.pages().begin(), seq->table.pages().end());
    }
    std::erase(pages, kNoPage);
    std::sort(pages.begin(), pages.end());
    return std::unique(pages.begin(), pages.end()) - pages.begin();
}

bool contains(const std::vector<SequenceKey>& keys, const SequenceKey& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Moves the tables of a group from one pool to another; pages that they share move once.
class GroupMove {
  public:
    GroupMove(KvBlockPool& from, KvBlockPool& to) : from_(from), to_(to) {}

    void add(BlockTable& table) {
        std::vector<PageId> pages = table.pages();
        for (PageId& page : pages) {
            if (page == kNoPage) continue;
            const PageId place = moved(page);
            from_.release(page);
            page = place;
        }
        table.replace_pages(std::move(pages));
    }
    // Returns the pairs of (from, to), in the order in which they were met.
    const std::vector<std::pair<PageId, PageId>>& moves() const { return moves_; }

  private:
    PageId moved(PageId page) {
        const auto known = places_.find(page);
        if (known != places_.end()) {
            to_.acquire(known->second);
            return known->second;
        }
        const PageId place = to_.allocate();
        places_.emplace(page, place);
        moves_.emplace_back(page, place);
        return place;
    }

    KvBlockPool& from_;
    KvBlockPool& to_;
    std::map<PageId, PageId> places_;
    std::vector<std::pair<PageId, PageId>> moves_;
};

}  // namespace

std::vector<Sequence*> Worker::Impl::live(const std::vector<SequenceKey>& keys,
                                          bool swapped) const {
    std::vector<Sequence*> group;
    for (const SequenceKey& key : keys) {
        Sequence* seq = sequences.find(key);
        if (seq == nullptr || seq->ending || seq->swapped != swapped) continue;
        if (std::find(group.begin(), group.end(), seq) == group.end()) group.push_back(seq);
    }
    return group;
}

void Worker::Impl::report_stuck(Sequence& seq, const char* reason,
                                std::vector<WorkerAction>& actions) {
    if (seq.stuck) return;
    seq.stuck = any_stuck = true;
    actions.push_back(SendToCoordinator{SequenceStuck{seq.key, StuckCause::out_of_pages, reason}});
}

void Worker::Impl::on_swap(const SwapSequences& message, std::vector<WorkerAction>& actions) {
    const auto group = live(message.keys, !message.out);
    const bool busy =
        std::any_of(group.begin(), group.end(), [](const Sequence* seq) { return seq->in_batch; });
    if (busy || !swaps_deferred.empty()) {
        swaps_deferred.push_back(message);
    } else {
        swap(message, actions);
    }
}

void Worker::Impl::swap(const SwapSequences& message, std::vector<WorkerAction>& actions) {
    if (message.out) {
        for (std::vector<SequenceKey>& group : returning) {
            std::erase_if(group,
                          [&](const SequenceKey& key) { return contains(message.keys, key); });
        }
        std::erase_if(returning, [](const auto& group) { return group.empty(); });
        return swap_out(live(message.keys, false), actions);
    }
    // Rows that overtook this message may have forked a member of the group. The message is older
    // than the fork and does not name it.
    std::vector<SequenceKey> named = message.keys;
    for (const SequenceKey& key : message.keys) {
        for (const SequenceKey& other : sequences.group(key.request)) {
            const Sequence& seq = *sequences.find(other);
            if (other.attempt == key.attempt && seq.forked_from >= 0) named.push_back(other);
        }
    }
    std::vector<SequenceKey> keys;
    for (const Sequence* seq : live(named, true)) {
        const bool waits = std::any_of(returning.begin(), returning.end(), [&](const auto& group) {
            return contains(group, seq->key);
        });
        if (!waits) keys.push_back(seq->key);
    }
    if (!keys.empty()) returning.push_back(std::move(keys));
}

void Worker::Impl::return_with(const SequenceKey& one, const SequenceKey& other) {
    for (std::vector<SequenceKey>& group : returning) {
        if (contains(group, one)) group.push_back(other);
    }
}

void Worker::Impl::swap_out(const std::vector<Sequence*>& group,
                            std::vector<WorkerAction>& actions) {
    if (group.empty()) return;
    for (Sequence* seq : group) seq->table.name_pages(pool);
    const std::int64_t needed = distinct_pages(group);
    if (!can_swap_out(needed, host_pages.free_pages())) {
        actions.push_back(SendToCoordinator{
            SequenceStuck{group.front()->key, StuckCause::no_swap_space,
                          std::to_string(needed) + " KV pages to swap out, room for " +
                              std::to_string(host_pages.free_pages()) + " in host memory"}});
        return;
    }
    GroupMove move(pool, host_pages);
    for (Sequence* seq : group) {
        CHECK(!seq->in_batch);
        if (seq->is_ready()) ready_list(*seq).remove(*seq);
        seq->swapped = true;
        seq->stuck = false;
        move.add(seq->table);
        leavers.push_back(seq->key);
    }
    for (const auto& [page, slot] : move.moves()) leaving.push_back({page, slot});
}

void Worker::Impl::plan_swaps(BatchPlan& plan, RunningBatch& batch,
                              std::vector<WorkerAction>& actions) {
    if (!leaving.empty()) {
        plan.swap_out = std::exchange(leaving, {});
        batch.moved = std::exchange(leavers, {});
        return;
    }
    leavers.clear();
    while (!returning.empty()) {
        const auto group = live(returning.front(), true);
        if (!group.empty() && !swap_in(group, plan)) {
            return report_stuck(*group.front(), "no free KV pages to swap in", actions);
        }
        for (const Sequence* seq : group) batch.moved.push_back(seq->key);
        returning.pop_front();
    }
}

bool Worker::Impl::swap_in(const std::vector<Sequence*>& group, BatchPlan& plan) {
    std::int64_t appended = 0;
    for (const Sequence* seq : group) appended += config.kv_layers(seq->layers).size();
    const std::int64_t pages = distinct_pages(group);
    if (!can_swap_in(pages, appended, pool.free_pages(), pool.total())) return false;
    make_room(pages);
    GroupMove move(host_pages, pool);
    for (Sequence* seq : group) {
        move.add(seq->table);
        seq->swapped = false;
        seq->stuck = false;
        if (seq->is_ready()) ready_list(*seq).add(*seq);
    }
    for (const auto& [slot, page] : move.moves()) plan.swap_in.push_back({page, slot});
    return true;
}

}  // namespace helix::core
