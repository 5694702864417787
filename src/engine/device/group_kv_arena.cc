#include "engine/device/group_kv_arena.h"

#include <cstring>

#include <fmt/format.h>

#include "base/index.h"

namespace helix::engine {

base::Result<std::unique_ptr<KvArena>> GroupKvArena::make(
    const ops::KvLayout& page, std::int64_t pages, std::int64_t swap_pages,
    const std::vector<std::unique_ptr<Device>>& ranks) {
    const auto n = static_cast<int>(ranks.size());
    if (page.n_kv_heads % n != 0) {
        return base::invalid(
            fmt::format("{} ranks cannot share {} key-value heads", n, page.n_kv_heads));
    }
    ops::KvLayout part = page;
    part.n_kv_heads = page.n_kv_heads / n;
    std::unique_ptr<GroupKvArena> made(new GroupKvArena(page, part));
    for (const std::unique_ptr<Device>& rank : ranks) {
        TRY(auto arena, rank->make_kv_arena(part, pages, swap_pages));
        made->of_rank_.push_back(std::move(arena));
    }
    return std::unique_ptr<KvArena>(std::move(made));
}

base::Status GroupKvArena::move(const core::BatchPlan& plan) {
    for (const std::unique_ptr<KvArena>& arena : of_rank_) TRY_VOID(arena->move(plan));
    return base::Ok{};
}

// The heads of a rank lie beside each other, both in its page and in the page of all.
base::Status GroupKvArena::read(core::PageId page, std::byte* bytes) const {
    std::vector<std::byte> own(base::size_of(part_.page_bytes()));
    const std::size_t keys = base::size_of(part_.values_of_head(0));
    for (std::size_t rank = 0; rank < of_rank_.size(); ++rank) {
        TRY_VOID(of_rank_[rank]->read(page, own.data()));
        const int head = static_cast<int>(rank) * part_.n_kv_heads;
        std::memcpy(bytes + layout_.keys_of_head(head), own.data(), keys);
        std::memcpy(bytes + layout_.values_of_head(head), own.data() + keys, own.size() - keys);
    }
    return base::Ok{};
}

base::Status GroupKvArena::write(core::PageId page, const std::byte* bytes) {
    std::vector<std::byte> own(base::size_of(part_.page_bytes()));
    const std::size_t keys = base::size_of(part_.values_of_head(0));
    for (std::size_t rank = 0; rank < of_rank_.size(); ++rank) {
        const int head = static_cast<int>(rank) * part_.n_kv_heads;
        std::memcpy(own.data(), bytes + layout_.keys_of_head(head), keys);
        std::memcpy(own.data() + keys, bytes + layout_.values_of_head(head), own.size() - keys);
        TRY_VOID(of_rank_[rank]->write(page, own.data()));
    }
    return base::Ok{};
}

}  // namespace helix::engine
