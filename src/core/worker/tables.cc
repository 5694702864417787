// This file has how a worker finds its sequences, the frames they need and those that are ready.

#include <algorithm>

#include "base/check.h"
#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

// Returns the first entry that does not come before the key.
auto lower_bound(const std::vector<SequenceTable::Entry>& entries, const SequenceKey& key) {
    return std::partition_point(
        entries.begin(), entries.end(),
        [&](const SequenceTable::Entry& entry) { return entry.first < key; });
}

}  // namespace

// ---- sequences
// ------------------------------------------------------------------------------------

SequenceTable::~SequenceTable() {
    for (const Entry& entry : entries_) memory_.drop(*entry.second);
}

Sequence* SequenceTable::find(const SequenceKey& key) const {
    Sequence* const* only = only_.find(key.request.value);
    if (only == nullptr) return nullptr;
    if (*only != nullptr) return (*only)->key == key ? *only : nullptr;
    const auto it = lower_bound(entries_, key);
    return it != entries_.end() && it->first == key ? it->second : nullptr;
}

std::vector<SequenceKey> SequenceTable::group(RequestId request) const {
    std::vector<SequenceKey> keys;
    for (auto it = lower_bound(entries_, {request, 0});
         it != entries_.end() && it->first.request == request; ++it) {
        keys.push_back(it->first);
    }
    return keys;
}

bool SequenceTable::has(RequestId request) const {
    return only_.find(request.value) != nullptr;
}

Sequence& SequenceTable::add(Sequence& sequence) {
    const SequenceKey key = sequence.key;
    const auto it = lower_bound(entries_, key);
    CHECK(it == entries_.end() || it->first != key);
    ++changes_;
    entries_.emplace(it, key, &sequence);
    const bool first = !has(key.request);
    if (!first) only_.erase(key.request.value);
    only_.insert(key.request.value, first ? &sequence : nullptr);
    return sequence;
}

void SequenceTable::erase(SequenceKey key) {
    const auto it = lower_bound(entries_, key);
    CHECK(it != entries_.end() && it->first == key);
    ++changes_;
    memory_.drop(*it->second);
    const auto next = entries_.erase(it);
    only_.erase(key.request.value);
    // Those that are left of its request lie around the place where it was.
    const auto is_left = [&](auto at) { return at->first.request == key.request; };
    const bool after = next != entries_.end() && is_left(next);
    const bool before = next != entries_.begin() && is_left(next - 1);
    if (!after && !before) return;
    const auto one = after ? next : next - 1;
    const bool several = (after && before) ||
                         (after && next + 1 != entries_.end() && is_left(next + 1)) ||
                         (before && next - 1 != entries_.begin() && is_left(next - 2));
    only_.insert(key.request.value, several ? nullptr : one->second);
}

// ---- frames
// ---------------------------------------------------------------------------------------

namespace {

template <typename Uses>
auto find_use(Uses& uses, std::uint64_t buffer) {
    return std::partition_point(uses.begin(), uses.end(),
                                [&](const auto& use) { return use.buffer < buffer; });
}

}  // namespace

void BufferUses::add(std::uint64_t buffer, std::int64_t uses) {
    if (uses_.empty() || uses_.back().buffer < buffer) {  // the newest frame, mostly
        uses_.push_back({buffer, uses});
        return;
    }
    const auto it = find_use(uses_, buffer);
    if (it != uses_.end() && it->buffer == buffer) {
        it->count += uses;
    } else {
        uses_.insert(it, {buffer, uses});
    }
}

bool BufferUses::release(std::uint64_t buffer) {
    const auto it = find_use(uses_, buffer);
    CHECK(it != uses_.end() && it->buffer == buffer);
    if (--it->count > 0) return false;
    uses_.erase(it);
    return true;
}

bool BufferUses::contains(std::uint64_t buffer) const {
    const auto it = find_use(uses_, buffer);
    return it != uses_.end() && it->buffer == buffer;
}

// ---- what is ready
// --------------------------------------------------------------------------------

void ReadyList::add(Sequence& sequence) {
    const Turn turn = sequence.pending.front().turn;
    if (entries_.empty() || entries_.back().turn <= turn) {  // mostly it comes last
        entries_.push_back({turn, &sequence});
        return;
    }
    const auto after =
        std::upper_bound(entries_.begin(), entries_.end(), turn,
                         [](const Turn& value, const Entry& entry) { return value < entry.turn; });
    entries_.insert(after, {turn, &sequence});
}

void ReadyList::remove(const Sequence& sequence) {
    const auto it =
        std::lower_bound(entries_.begin(), entries_.end(), sequence.pending.front().turn,
                         [](const Entry& entry, const Turn& value) { return entry.turn < value; });
    CHECK(it != entries_.end() && it->sequence == &sequence);
    entries_.erase(it);
}

void ReadyList::drop_batched(std::size_t count) {
    std::size_t seen = 0;
    std::size_t kept = 0;
    for (; count > 0; ++seen) {
        CHECK(seen < entries_.size());
        if (entries_[seen].sequence->in_batch) {
            --count;
        } else {
            entries_[kept++] = entries_[seen];
        }
    }
    const auto from = entries_.begin();
    entries_.erase(from + static_cast<std::ptrdiff_t>(kept),
                   from + static_cast<std::ptrdiff_t>(seen));
}

}  // namespace helix::core
