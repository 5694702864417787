#include "base/hasher.h"

#include <xxhash.h>

#include "base/check.h"

namespace helix::base {

Hasher128::Hasher128() : state_(XXH3_createState()) {
    CHECK(state_ != nullptr);
    XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

Hasher128::~Hasher128() {
    XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Hasher128::add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

Hash128 Hasher128::hash() const {
    const XXH128_hash_t h = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
    return {h.low64, h.high64};
}

}  // namespace helix::base
