#include "core/worker/kv_parcels.h"

#include <algorithm>

#include "base/check.h"

namespace helix::core {

std::vector<std::uint32_t> KvParcel::members() const {
    std::vector<std::uint32_t> numbers;
    for (const auto& [number, blocks] : members_) numbers.push_back(number);
    return numbers;
}

// ---- what comes
// -----------------------------------------------------------------------------------

KvParcel::Part KvParcel::note_part(const KvBlocks& message) {
    Round& round = rounds_[{message.round, message.layers.begin, message.layers.end}];
    if (round.parts == 0) round.parts = message.parts;
    if (round.parts != message.parts) return Part::foreign;
    return round.came.insert(message.part).second ? Part::fresh : Part::repeated;
}

bool KvParcel::note_arrived(std::uint32_t round, LayerRange layers) {
    const auto found = rounds_.find({round, layers.begin, layers.end});
    CHECK(found != rounds_.end() && found->second.arrived < found->second.parts);
    return ++found->second.arrived == found->second.parts;
}

std::optional<std::vector<PageId>> KvParcel::take_spare(std::int64_t count) {
    if (count > static_cast<std::int64_t>(spare_.size())) return std::nullopt;
    const auto first = spare_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<PageId> pages(first, spare_.end());
    spare_.erase(first, spare_.end());
    return pages;
}

void KvParcel::place(std::uint32_t member, std::int32_t block, LayerRange layers,
                     std::span<const PageId> pages, KvBlockPool& pool) {
    CHECK(layers_.contains(layers) && pages.size() == static_cast<std::size_t>(layers.size()));
    Block& held = members_[member][block];
    held.resize(static_cast<std::size_t>(layers_.size()));
    for (std::size_t i = 0; i < pages.size(); ++i) {
        if (pages[i] == kNoPage) continue;
        Held& one = held[slot(layers.begin) + i];
        pool.acquire(pages[i]);
        if (one.is_placed) pool.release(one.page);
        one = {true, pages[i], 0};
    }
}

void KvParcel::begin_members(const std::vector<KvSpan>& spans, KvBlockPool& pool) {
    for (const KvSpan& span : spans) {
        if (span.first_block <= 0 || members_.contains(span.member)) continue;
        const auto donor = std::find_if(members_.begin(), members_.end(), [&](const auto& other) {
            return other.second.contains(span.first_block - 1);
        });
        if (donor == members_.end()) continue;
        const std::map<std::int32_t, Block>& from = donor->second;
        std::map<std::int32_t, Block> shared(from.begin(), from.lower_bound(span.first_block));
        for (const auto& [number, block] : shared) {
            for (const Held& one : block) {
                if (one.is_placed) pool.acquire(one.page);
            }
        }
        members_.emplace(span.member, std::move(shared));
    }
}

void KvParcel::fill(std::uint32_t member, std::int32_t block, LayerRange layers,
                    std::span<const PageId> pages, std::int32_t tokens) {
    const auto found = members_.find(member);
    if (found == members_.end()) return;
    Block& held = found->second.at(block);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        Held& one = held[slot(layers.begin) + i];
        if (one.is_placed && one.page == pages[i]) one.tokens = tokens;
    }
}

// ---- what goes
// ------------------------------------------------------------------------------------

std::vector<PageId> KvParcel::pages_of(std::uint32_t member, std::int32_t tokens,
                                       std::int32_t block_size, const Needless& needless) const {
    static const std::map<std::int32_t, Block> kNone;
    const auto found = members_.find(member);
    const std::map<std::int32_t, Block>& blocks = found == members_.end() ? kNone : found->second;
    std::vector<PageId> pages;
    for (std::int32_t block = 0; block * block_size < tokens; ++block) {
        const auto held = blocks.find(block);
        const std::int32_t needed = std::min(block_size, tokens - block * block_size);
        for (std::int32_t layer = 0; layer < layers_.size(); ++layer) {
            if (needless(block, layer)) {
                pages.push_back(kNoPage);
                continue;
            }
            if (held == blocks.end()) return {};
            const Held& one = held->second[static_cast<std::size_t>(layer)];
            if (!one.is_placed || one.tokens < needed) return {};
            pages.push_back(one.page);
        }
    }
    return pages;
}

void KvParcel::release(const Block& block, KvBlockPool& pool) const {
    for (const Held& one : block) {
        if (one.is_placed) pool.release(one.page);
    }
}

bool KvParcel::drop_member(std::uint32_t member, bool begun, KvBlockPool& pool) {
    const auto found = members_.find(member);
    if (found != members_.end()) {
        for (const auto& [number, block] : found->second) release(block, pool);
        members_.erase(found);
    }
    if (begun) {
        taken_ = true;
        pool.release(spare_);
        spare_.clear();
    }
    return taken_ && members_.empty();
}

void KvParcel::drop_all(KvBlockPool& pool) {
    for (const auto& [member, blocks] : members_) {
        for (const auto& [number, block] : blocks) release(block, pool);
    }
    members_.clear();
    pool.release(spare_);
    spare_.clear();
}

std::vector<PageId> KvParcel::pages() const {
    std::vector<PageId> all = spare_;
    for (const auto& [member, blocks] : members_) {
        for (const auto& [number, block] : blocks) {
            for (const Held& one : block) {
                if (one.is_placed) all.push_back(one.page);
            }
        }
    }
    return all;
}

}  // namespace helix::core
