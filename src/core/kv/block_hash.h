#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "core/protocol/types.h"

// The names of full blocks of tokens, in the coordinator's index and the workers' caches: the hash
// of a block's tokens and of all tokens before it.

namespace helix::core {

// Of a block that follows the one (or the beginning of another kind) with this hash. It covers the
// block and all before it, so equal hashes mean equal tokens up to there.
base::Hash128 block_hash(const base::Hash128& before, std::span<const Token> block);

// Adds to hashes, one for each full block from the first on, those of the tokens' other full
// blocks.
void extend_block_hashes(std::span<const Token> tokens, std::int32_t block_size,
                         std::vector<base::Hash128>& hashes);

}  // namespace helix::core
