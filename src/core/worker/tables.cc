// This file has how a worker finds its sequences, the frames they need and those that are ready.

#include <algorithm>

#include "base/check.h"
#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

// Returns the first entry that does not come before the key. Each round looks at seven entries at
// once and keeps an eighth: in a large cluster most of them are not in the processor's cache, and
// they are fetched at the same time. No step is a branch that would have to be guessed.
auto lower_bound(const std::vector<SequenceTable::Entry>& entries, const SequenceKey& key) {
    constexpr std::size_t kParts = 8;
    const auto is_before = [&](std::size_t at) {
        return static_cast<std::size_t>(entries[at].first.request < key.request);
    };
    std::size_t first = 0;
    std::size_t count = entries.size();
    while (count > kParts) {
        const std::size_t part = count / kParts;
        std::size_t skipped = 0;
        for (std::size_t i = 1; i < kParts; ++i) skipped += is_before(first + i * part - 1);
        first += skipped * part;
        count = skipped + 1 < kParts ? part : count - skipped * part;
    }
    std::size_t skipped = 0;
    for (std::size_t i = 0; i < count; ++i) skipped += is_before(first + i);
    const auto at = entries.begin() + static_cast<std::ptrdiff_t>(first + skipped);
    if (at == entries.end() || at->first >= key) return at;
    return std::partition_point(
        at, entries.end(), [&](const SequenceTable::Entry& entry) { return entry.first < key; });
}

}  // namespace

// ---- sequences
// ------------------------------------------------------------------------------------

Sequence* SequenceTable::find(const SequenceKey& key) const {
    const auto it = lower_bound(entries_, key);
    return it != entries_.end() && it->first == key ? it->second.get() : nullptr;
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
    const auto it = lower_bound(entries_, {request, 0});
    return it != entries_.end() && it->first.request == request;
}

Sequence& SequenceTable::add(std::unique_ptr<Sequence> sequence) {
    const SequenceKey key = sequence->key;
    const auto it = lower_bound(entries_, key);
    CHECK(it == entries_.end() || it->first != key);
    ++changes_;
    return *entries_.emplace(it, key, std::move(sequence))->second;
}

void SequenceTable::erase(const SequenceKey& key) {
    const auto it = lower_bound(entries_, key);
    CHECK(it != entries_.end() && it->first == key);
    ++changes_;
    entries_.erase(it);
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
