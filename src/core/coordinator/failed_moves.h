#pragma once

#include "core/coordinator/fleet.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// Workers, links or ways have changed: a move that failed may go well now, so every request may be
// moved and every worker may take moves again, without waiting out its pause.
inline void forget_failed_moves(Fleet& fleet, RequestTable& requests) {
    fleet.forget_failed_moves();
    requests.forget_failed_moves();
}

}  // namespace helix::core
