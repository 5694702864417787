#include "engine/backend/backend.h"

#include <fmt/format.h>

namespace helix::engine {

base::Status Backend::read_pages(std::span<const core::PageId> /*pages*/,
                                 std::span<std::byte> /*bytes*/) const {
    return base::invalid("pages of this engine do not move");
}

base::Status Backend::write_pages(std::span<const core::PageId> /*pages*/,
                                  std::span<const std::byte> /*bytes*/) {
    return base::invalid("pages of this engine do not move");
}

base::Status Backend::check_pages(std::span<const core::PageId> pages, std::int64_t total,
                                  std::size_t bytes) const {
    for (const core::PageId page : pages) {
        if (page >= total) return base::invalid(fmt::format("page {} of {}", page, total));
    }
    const std::size_t expected = pages.size() * static_cast<std::size_t>(kv_page_bytes());
    if (bytes == expected) return base::Ok{};
    return base::invalid(
        fmt::format("{} bytes for {} KV pages of {} bytes", bytes, pages.size(), kv_page_bytes()));
}

}  // namespace helix::engine
