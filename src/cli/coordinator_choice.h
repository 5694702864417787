#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/discovery.h"

// Which coordinator a worker joins that was not told.

namespace helix::cli {

// One line for each, numbered from 1. What came from the network is written so that it plays no
// tricks on a terminal.
std::string list_coordinators(const std::vector<net::FoundCoordinator>& found);

// The number that somebody typed, from 1 to count; for one an empty line or "y" is that one. 0:
// none of them, for "n"; -1: not understood.
int typed_choice(const std::string& line, std::size_t count);

// Looks at the local network, shows what is there and asks which. Returns HOST:PORT. Error
// not_found with what may be the reason when there is none; invalid, with the command to give, when
// nobody can be asked, or takes none of them.
base::Result<std::string> choose_coordinator();

}  // namespace helix::cli
