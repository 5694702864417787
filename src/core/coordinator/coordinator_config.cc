#include "core/coordinator/coordinator_config.h"

#include <limits>

namespace helix::core {

void balance_as_llumnix(CoordinatorConfig& config) {
    PairingConfig& pairing = config.balance.pairing;
    pairing.rule = PairingRule::llumnix;
    pairing.source_below = pairing.destination_above = 3.0 * config.block_size;
    pairing.moves = std::numeric_limits<std::int32_t>::max();
    config.balance.interval = base::from_ms(50);
    config.balance.room_moves = 0;
    config.migration.per_worker = 1;
}

}  // namespace helix::core
