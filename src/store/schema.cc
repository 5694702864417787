#include "store/schema.h"

#include <fmt/format.h>

#include "base/check.h"

namespace helix::store {

using base::Status;

Status prepare_schema(Database& database, const Schema& schema) {
    TRY(const Database::Mark mark, database.read_mark(schema.application_id));
    if (mark.empty) {
        TRY(Transaction transaction, Transaction::begin(database));
        TRY_VOID(database.write_mark(schema.application_id, schema.version));
        TRY_VOID(database.execute(schema.tables));
        return transaction.commit();
    }
    if (mark.application_id != schema.application_id) {
        return base::invalid(database.path() + ": is a database of another program");
    }
    TRY_VOID(database.check_tables());
    if (mark.version > schema.version) {
        return base::invalid(
            fmt::format("{}: was written by a newer Helix (version {} of its tables; this one "
                        "knows {})",
                        database.path(), mark.version, schema.version));
    }
    if (mark.version == schema.version) return base::Ok{};
    CHECK(schema.upgrades.size() + 1 == static_cast<std::size_t>(schema.version));
    if (mark.version < 1) return base::invalid(database.path() + ": is damaged: it has no version");
    TRY(Transaction transaction, Transaction::begin(database));
    for (std::int64_t from = mark.version; from < schema.version; ++from) {
        TRY_VOID(database.execute(schema.upgrades[static_cast<std::size_t>(from - 1)]));
    }
    TRY_VOID(database.write_mark(schema.application_id, schema.version));
    return transaction.commit();
}

}  // namespace helix::store
