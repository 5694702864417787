#pragma once

#include <memory>
#include <string>

#include "store/database.h"

namespace helix::store {

// A file of SQLite, held by one process: a second one that opens it is told that it is in use. It
// is made, for its owner only, when it is not there. What a commit wrote is synced (WAL). Errors
// name the file.
base::Result<std::unique_ptr<Database>> open_sqlite(const std::string& path);

}  // namespace helix::store
