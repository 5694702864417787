#include "engine/aligned_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace helix::engine {

base::Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
    AlignedBuffer buffer;
    if (bytes == 0) return buffer;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return base::Error{base::Errc::unavailable, fmt::format("cannot allocate {} bytes: {}",
                                                                bytes, std::strerror(errno))};
    }
    // Only a wish: without huge pages everything works, a little slower.
    madvise(at, bytes, MADV_HUGEPAGE);
    buffer.data_ = static_cast<std::byte*>(at);
    buffer.size_ = bytes;
    return buffer;
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
