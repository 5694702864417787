#include "base/large_pages.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#if defined(__GLIBC__) && !defined(HELIX_SANITIZED)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace helix::base {

#if defined(__GLIBC__) && !defined(HELIX_SANITIZED)

// The heap grows once by all these bytes, which are only addresses until they are touched, and
// these are advised. Large blocks come from it too, and not from mappings of their own.
bool prefer_large_pages(std::size_t bytes) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    constexpr int kUsualPad = 128 << 10;
    constexpr int kLargestBlock = 32 << 20;  // the most that the C library takes from its heap
    const auto pad = static_cast<int>(std::min(bytes, kMost));
    mallopt(M_MMAP_THRESHOLD, kLargestBlock);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    mallopt(M_TOP_PAD, pad);
    const auto before = reinterpret_cast<std::uintptr_t>(sbrk(0));
    void* volatile block = std::malloc(kLargestBlock / 2);  // no compiler leaves it out
    const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
    const bool taken = block != nullptr;
    mallopt(M_TOP_PAD, kUsualPad);
    std::free(block);
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = (before + page - 1) / page * page;
    if (!taken || end <= first) return false;
    return madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE) == 0;
}

#else

bool prefer_large_pages(std::size_t /*bytes*/) {
    return false;
}

#endif

}  // namespace helix::base
