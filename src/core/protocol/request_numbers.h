#pragma once

#include <cstdint>

#include "base/planted_bug.h"
#include "core/protocol/types.h"

namespace helix::core {

// The first number a coordinator gives a request; the next ones count up. It begins with the
// calendar (microseconds), as the incarnations of workers do, so the numbers of an earlier
// coordinator lie below it as long as that one took less than a million requests a second. So
// nothing that is left of a request, wherever it turns up, is taken for another's.
inline RequestId first_request(std::int64_t calendar_us) {
    if (base::planted(base::PlantedBug::request_numbers_begin_anew)) return {1};
    return {1 + static_cast<std::uint64_t>(calendar_us)};
}

}  // namespace helix::core
