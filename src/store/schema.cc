#include "store/schema.h"

#include <fmt/format.h>

#include "base/check.h"

namespace helix::store {

using base::Status;

Status prepare_schema(const Database& database, const Schema& schema) {
    TRY(const std::int64_t tables, database.number("SELECT count(*) FROM sqlite_master"));
    TRY(const std::int64_t application, database.number("PRAGMA application_id"));
    TRY(const std::int64_t version, database.number("PRAGMA user_version"));
    if (tables == 0) {
        TRY(Transaction transaction, Transaction::begin(database));
        TRY_VOID(
            database.execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={};{}",
                                         schema.application_id, schema.version, schema.tables)));
        return transaction.commit();
    }
    if (application != schema.application_id) {
        return base::invalid(database.path() + ": is a database of another program");
    }
    TRY(const std::int64_t foreign,
        database.number("SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') "
                        "OR (type='table' AND rootpage=0)"));
    if (foreign != 0) {
        return base::invalid(database.path() +
                             ": has views, triggers or virtual tables, which Helix never makes");
    }
    if (version > schema.version) {
        return base::invalid(
            fmt::format("{}: was written by a newer Helix (version {} of its tables; this one "
                        "knows {})",
                        database.path(), version, schema.version));
    }
    if (version == schema.version) return base::Ok{};
    CHECK(schema.upgrades.size() + 1 == static_cast<std::size_t>(schema.version));
    if (version < 1) return base::invalid(database.path() + ": is damaged: it has no version");
    TRY(Transaction transaction, Transaction::begin(database));
    for (std::int64_t from = version; from < schema.version; ++from) {
        TRY_VOID(database.execute(schema.upgrades[static_cast<std::size_t>(from - 1)]));
    }
    TRY_VOID(database.execute(fmt::format("PRAGMA user_version={}", schema.version)));
    return transaction.commit();
}

}  // namespace helix::store
