#pragma once

#include <string>

#include "base/result.h"

namespace helix::cli {

// What --balance says of how running requests move: false for `helix`, true for `llumnix`
// (core::balance_as_llumnix). Errors: another word, or llumnix where --no-balance lets none move.
base::Result<bool> moves_as_llumnix(const std::string& balance, bool no_balance);

}  // namespace helix::cli
