#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/memory.h"
#include "engine/ops/kv_layout.h"

namespace helix::engine {

// KV pages of a DeviceGroup: every rank has its key-value heads of every page, under the same
// number.
class GroupKvArena final : public KvArena {
  public:
    // page: as pages travel. invalid: the ranks do not divide its heads. unavailable: no memory.
    static base::Result<std::unique_ptr<KvArena>> make(
        const ops::KvLayout& page, std::int64_t pages, std::int64_t swap_pages,
        const std::vector<std::unique_ptr<Device>>& ranks);

    std::int64_t pages() const override { return of_rank_.front()->pages(); }
    std::int64_t swap_pages() const override { return of_rank_.front()->swap_pages(); }
    base::Status move(const core::BatchPlan& plan) override;
    base::Status read(core::PageId page, std::byte* bytes) const override;
    base::Status write(core::PageId page, const std::byte* bytes) override;

    const ops::KvLayout& layout() const { return layout_; }  // of all heads
    KvArena& of_rank(std::size_t rank) const { return *of_rank_[rank]; }

  private:
    GroupKvArena(const ops::KvLayout& layout, const ops::KvLayout& part)
        : layout_(layout), part_(part) {}

    ops::KvLayout layout_, part_;
    std::vector<std::unique_ptr<KvArena>> of_rank_;
};

}  // namespace helix::engine
