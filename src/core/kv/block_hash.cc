#include "core/kv/block_hash.h"

#include <array>

#include "base/check.h"

namespace helix::core {

base::Hash128 block_hash(const base::Hash128& before, std::span<const Token> block) {
    const base::Hash128 tokens = base::hash128(std::as_bytes(block));
    const std::array<std::uint64_t, 4> both{before.low, before.high, tokens.low, tokens.high};
    return base::hash128(std::as_bytes(std::span(both)));
}

void extend_block_hashes(std::span<const Token> tokens, std::int32_t block_size,
                         std::vector<base::Hash128>& hashes) {
    CHECK(block_size > 0);
    const auto size = static_cast<std::size_t>(block_size);
    base::Hash128 before = hashes.empty() ? base::Hash128{} : hashes.back();
    for (std::size_t at = hashes.size() * size; at + size <= tokens.size(); at += size) {
        before = block_hash(before, tokens.subspan(at, size));
        hashes.push_back(before);
    }
}

}  // namespace helix::core
