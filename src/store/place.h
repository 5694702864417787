#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace helix::store {

// Where state is kept: in files of a folder (SQLite), or in a PostgreSQL database that several
// coordinators share.
struct Place {
    Place() = default;
    Place(std::string path) : folder(std::move(path)) {}  // NOLINT: implicit by design
    Place(const char* path) : folder(path) {}             // NOLINT: implicit by design
    bool empty() const { return folder.empty() && postgres.empty(); }

    std::string folder;
    std::string postgres;  // a URL as libpq takes it, with or without the password

    // Who writes there, of a database that is shared: the coordinator's term, and what tells it
    // from another one of the same term. Only the last term that opened it may write.
    std::uint64_t term = 0;
    std::string owner;
};

}  // namespace helix::store
