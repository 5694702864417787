#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "store/database.h"

namespace helix::store {

// Which of our databases one is, as a file says in its header and a server in a table.
struct Schema {
    std::int64_t application_id = 0;
    std::int64_t version = 1;
    const char* tables = "";  // the statements that make them
    // Statements that make version i + 2 of version i + 1; one for each version but the first.
    std::span<const char* const> upgrades = {};
};

// Makes the tables of an empty database, and brings those of an older version up to this one,
// keeping what is in them. Error invalid, with nothing touched: a database of another program, or
// one that a newer Helix wrote.
base::Status prepare_schema(Database& database, const Schema& schema);

}  // namespace helix::store
