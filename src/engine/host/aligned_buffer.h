#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace helix::engine {

// Zeroed memory straight from the kernel, page aligned, in huge pages where it can have them (large
// ones begin with one); physical memory is taken at first touch. What large weights and the KV pool
// live in.
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    static base::Result<AlignedBuffer> allocate(std::size_t bytes);
    ~AlignedBuffer();
    AlignedBuffer(AlignedBuffer&& other) noexcept;
    AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

    // No huge page will hold what is on both sides of this offset: they may lie on different memory
    // nodes. To be called before either side is touched.
    void part_huge_pages(std::size_t offset);

    // The pages that lie whole in [offset, offset + bytes) take no memory until they are touched
    // again, and are zero then.
    void give_back(std::size_t offset, std::size_t bytes);

    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace helix::engine
