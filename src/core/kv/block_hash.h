#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "core/protocol/types.h"

// These are the names of full blocks of tokens, in the coordinator's index and the workers' caches:
// the hash of a block's tokens and of all tokens before it.

namespace helix::core {

// Returns the hash of a block that follows the block (or the root) with the hash `before`. It
// covers the block and all before it, so equal hashes mean equal tokens up to its end.
base::Hash128 block_hash(const base::Hash128& before, std::span<const Token> block);

// hashes has one hash for each of the first full blocks of tokens; this adds those of the other
// full blocks.
void extend_block_hashes(std::span<const Token> tokens, std::int32_t block_size,
                         std::vector<base::Hash128>& hashes);

}  // namespace helix::core
