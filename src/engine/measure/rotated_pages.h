#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/protocol/types.h"
#include "engine/device/device.h"
#include "engine/measure/timing.h"

namespace helix::engine::measure {

struct PageShape {
    int n_heads = 0;
    int n_kv_heads = 0;
    int head_dim = 0;
};

// KV pages of some sequences of one layer, f16, filled with random keys and values, for attention
// over them in turn.
class RotatedPages {
  public:
    // unavailable: no memory.
    static base::Result<RotatedPages> create(Device& device, const PageShape& shape,
                                             std::int32_t context, std::int32_t sequences,
                                             std::uint64_t seed);
    // Of the last `rows` rows of each of so many sequences at once. internal: something was not
    // computed.
    base::Result<Timing> time(std::int32_t sequences, std::int64_t rows, double budget_s);
    double bytes_of_sequence() const { return bytes_of_sequence_; }
    // Two for each element of a key, and of a value, that a row attends to.
    double operations(std::int32_t sequences, std::int64_t rows) const;

  private:
    RotatedPages(Device& device, const PageShape& shape, std::int32_t context, std::uint64_t seed)
        : device_(&device), shape_(shape), context_(context), seed_(seed) {}
    base::Status fill();

    Device* device_;
    PageShape shape_;
    std::int32_t context_;
    std::uint64_t seed_;
    double bytes_of_sequence_ = 0;
    std::unique_ptr<KvArena> kv_;
    std::vector<std::vector<core::PageId>> pages_;  // of each sequence
    std::size_t next_ = 0;
};

}  // namespace helix::engine::measure
