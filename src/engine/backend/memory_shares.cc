#include "engine/backend/memory_shares.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "spec/units.h"

namespace helix::engine {
namespace {

base::Status check_asked(const MemoryWish& wish) {
    if (wish.asked_bytes <= wish.memory.free_bytes) return base::Ok{};
    return base::invalid(fmt::format("--memory: {} is to have {}, of which {} are free, by {}",
                                     wish.device, spec::format_bytes(wish.asked_bytes),
                                     spec::format_bytes(wish.memory.free_bytes),
                                     wish.memory.bound));
}

// Divides bytes among those that nothing was said of, the ones that are offered least first.
base::Status divide(const std::vector<MemoryWish>& wishes, std::vector<std::size_t> among,
                    std::int64_t bytes, std::vector<std::int64_t>& shares) {
    std::sort(among.begin(), among.end(), [&](std::size_t a, std::size_t b) {
        return wishes[a].memory.offered_bytes < wishes[b].memory.offered_bytes;
    });
    for (std::size_t i = 0; i < among.size(); ++i) {
        const MemoryWish& wish = wishes[among[i]];
        const std::int64_t even = bytes / static_cast<std::int64_t>(among.size() - i);
        const std::int64_t share = std::min(even, wish.memory.offered_bytes);
        if (share <= 0) {
            return base::invalid(fmt::format(
                "--memory: nothing of this machine's memory is left for {}: of {} that are free "
                "the other devices take all that may be used",
                wish.device, spec::format_bytes(wish.memory.free_bytes)));
        }
        shares[among[i]] = share;
        bytes -= share;
    }
    return base::Ok{};
}

}  // namespace

base::Result<std::vector<std::int64_t>> share_memory(const std::vector<MemoryWish>& wishes,
                                                     const DeviceMemory& host) {
    std::vector<std::int64_t> shares(wishes.size());
    std::vector<std::size_t> among;
    std::int64_t asked_of_host = 0;
    std::string who;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
        const MemoryWish& wish = wishes[i];
        TRY_VOID(check_asked(wish));
        shares[i] = wish.asked_bytes > 0 ? wish.asked_bytes : wish.memory.offered_bytes;
        if (!wish.memory.of_host) continue;
        if (wish.asked_bytes == 0) {
            among.push_back(i);
            continue;
        }
        asked_of_host += wish.asked_bytes;
        who += (who.empty() ? "" : " and ") + wish.device;
    }
    if (asked_of_host > 0 && asked_of_host > host.free_bytes) {
        return base::invalid(fmt::format(
            "--memory: {} are to have {} of this machine's memory together, of which {} are free, "
            "by {}",
            who, spec::format_bytes(asked_of_host), spec::format_bytes(host.free_bytes),
            host.bound));
    }
    TRY_VOID(divide(wishes, std::move(among), host.offered_bytes - asked_of_host, shares));
    return shares;
}

}  // namespace helix::engine
