#include "core/coordinator/prefix_index.h"

#include <algorithm>

#include "base/check.h"

namespace helix::core {

PrefixIndex::PrefixIndex(std::size_t max_blocks) : max_blocks_(max_blocks) {
    CHECK(max_blocks < kNone);
}

void PrefixIndex::Entry::add(std::uint32_t path) {
    auto at = std::find(paths.begin(), paths.end(), path);
    if (at == paths.end()) --at;  // the oldest path makes room
    std::copy_backward(paths.begin(), at, at + 1);
    paths.front() = path;
}

void PrefixIndex::Entry::remove(std::uint32_t path) {
    const auto kept = std::remove(paths.begin(), paths.end(), path);
    std::fill(kept, paths.end(), kNone);
}

bool PrefixIndex::Entry::has(std::uint32_t path) const {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
}

const PrefixIndex::Entry* PrefixIndex::find(const base::Hash128& hash) const {
    const std::uint32_t* slot = slots_.find(hash.low);
    if (slot == nullptr || entries_[*slot].hash != hash) return nullptr;
    return &entries_[*slot];
}

void PrefixIndex::record(std::span<const base::Hash128> blocks, const Path& path) {
    CHECK(!path.empty());
    const auto [known, added] = path_ids_.emplace(path, static_cast<std::uint32_t>(paths_.size()));
    if (added) paths_.push_back(path);
    // Later blocks are recorded first, so that of one text the end is forgotten before the
    // beginning.
    const std::span<const base::Hash128> kept = blocks.first(std::min(blocks.size(), max_blocks_));
    for (auto hash = kept.rbegin(); hash != kept.rend(); ++hash) use(*hash, known->second);
}

void PrefixIndex::use(const base::Hash128& hash, std::uint32_t path) {
    std::uint32_t slot = 0;
    if (const std::uint32_t* found = slots_.find(hash.low)) {
        slot = *found;
        unlink(slot);
        if (entries_[slot].hash != hash) entries_[slot] = {};
    } else {
        if (slots_.size() == max_blocks_) erase(oldest_);
        if (free_.empty()) {
            slot = static_cast<std::uint32_t>(entries_.size());
            entries_.emplace_back();
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        slots_.insert(hash.low, slot);
    }
    entries_[slot].hash = hash;
    entries_[slot].add(path);
    link_newest(slot);
}

std::vector<PrefixHit> PrefixIndex::find(std::span<const base::Hash128> blocks) const {
    struct Run {
        std::uint32_t path = kNone;
        std::int32_t blocks = 0;
    };
    std::vector<Run> runs;
    std::int32_t block = 0;
    for (const base::Hash128& hash : blocks) {
        const Entry* entry = find(hash);
        if (entry == nullptr) break;
        if (block == 0) {
            for (const std::uint32_t path : entry->paths) {
                if (path != kNone) runs.push_back({path, 0});
            }
        }
        bool any = false;
        for (Run& run : runs) {
            if (run.blocks != block || !entry->has(run.path)) continue;
            ++run.blocks;
            any = true;
        }
        if (!any) break;
        ++block;
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const Run& a, const Run& b) { return a.blocks > b.blocks; });
    std::vector<PrefixHit> hits;
    hits.reserve(runs.size());
    for (const Run& run : runs) hits.push_back({paths_[run.path], run.blocks});
    return hits;
}

void PrefixIndex::forget(std::span<const base::Hash128> blocks, const Path& path) {
    const auto known = path_ids_.find(path);
    if (known == path_ids_.end()) return;
    for (const base::Hash128& hash : blocks) {
        const std::uint32_t* slot = slots_.find(hash.low);
        if (slot == nullptr || entries_[*slot].hash != hash) continue;
        entries_[*slot].remove(known->second);
        if (entries_[*slot].paths.front() == kNone) erase(*slot);
    }
}

void PrefixIndex::clear() {
    entries_.clear();
    free_.clear();
    slots_ = {};
    newest_ = oldest_ = kNone;
    paths_.clear();
    path_ids_.clear();
}

void PrefixIndex::link_newest(std::uint32_t slot) {
    entries_[slot].newer = kNone;
    entries_[slot].older = newest_;
    if (newest_ != kNone) entries_[newest_].newer = slot;
    newest_ = slot;
    if (oldest_ == kNone) oldest_ = slot;
}

void PrefixIndex::unlink(std::uint32_t slot) {
    const Entry& entry = entries_[slot];
    if (entry.newer == kNone) {
        newest_ = entry.older;
    } else {
        entries_[entry.newer].older = entry.older;
    }
    if (entry.older == kNone) {
        oldest_ = entry.newer;
    } else {
        entries_[entry.older].newer = entry.newer;
    }
}

void PrefixIndex::erase(std::uint32_t slot) {
    unlink(slot);
    slots_.erase(entries_[slot].hash.low);
    entries_[slot] = {};
    free_.push_back(slot);
}

}  // namespace helix::core
