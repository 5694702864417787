#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace helix::base {

Hash128 hash128(std::span<const std::byte> bytes) {
    const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
    return {h.low64, h.high64};
}

std::string to_hex(const Hash128& hash) {
    return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

}  // namespace helix::base
