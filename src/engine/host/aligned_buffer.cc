#include "engine/host/aligned_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::engine {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t n, std::size_t step) {
    return (n + step - 1) / step * step;
}

}  // namespace

base::Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
    AlignedBuffer buffer;
    if (bytes == 0) return buffer;
    // With room to begin at a huge page; the rest is unmapped again.
    const std::size_t room = bytes < kHugePage ? 0 : kHugePage;
    const std::size_t mapped = round_up(bytes, kPage) + room;
    void* all = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        return base::Error{base::Errc::unavailable, fmt::format("cannot allocate {} bytes: {}",
                                                                bytes, std::strerror(errno))};
    }
    auto* at = static_cast<std::byte*>(all);
    if (room > 0) {
        const auto start = std::bit_cast<std::uintptr_t>(at);
        const std::size_t before = round_up(start, kHugePage) - start;
        if (before > 0) munmap(at, before);
        if (before < room) munmap(at + before + mapped - room, room - before);
        at += before;
    }
    // Only a wish: without huge pages everything works, a little slower.
    madvise(at, bytes, MADV_HUGEPAGE);
    buffer.data_ = at;
    buffer.size_ = bytes;
    return buffer;
}

void AlignedBuffer::part_huge_pages(std::size_t offset) {
    CHECK(offset <= size_);
    // The whole huge page around it, as far as it is ours.
    const std::size_t start = std::bit_cast<std::uintptr_t>(data_);
    const std::size_t page = (start + offset) / kHugePage * kHugePage;
    const std::size_t begin = std::max(page, start) - start;
    const std::size_t end = std::min(page + kHugePage - start, size_);
    if (begin < end) madvise(data_ + begin, end - begin, MADV_NOHUGEPAGE);
}

void AlignedBuffer::give_back(std::size_t offset, std::size_t bytes) {
    CHECK(offset <= size_ && bytes <= size_ - offset);
    const std::size_t begin = round_up(offset, kPage);
    const std::size_t end = (offset + bytes) / kPage * kPage;
    if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

AlignedBuffer::~AlignedBuffer() {
    if (data_ != nullptr) munmap(data_, size_);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

}  // namespace helix::engine
