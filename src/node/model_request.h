#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "core/protocol/coordinator_events.h"

namespace helix::node {

// ok if the core can take up this request of another process, for a model with so many words whose
// context has so many tokens. Error invalid says what is wrong with it. What a message may hold at
// all, its codec has checked.
base::Status check_for_model(const core::Request& request, const std::optional<core::Begun>& begun,
                             std::int32_t vocab_size, std::int32_t context_length);

}  // namespace helix::node
