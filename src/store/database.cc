#include "store/database.h"

#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "store/postgres.h"
#include "store/sqlite.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

Result<std::unique_ptr<Database>> Database::open(const Place& place, const std::string& name) {
    if (!place.postgres.empty()) return open_postgres(place);
    // What users write is only for the owner to read.
    TRY_VOID(base::make_private_folder(place.folder));
    return open_sqlite((std::filesystem::path(place.folder) / name).string());
}

Result<std::int64_t> Database::number(std::string_view sql) {
    TRY(Statement statement, prepare(sql));
    TRY(const bool row, statement.step());
    if (!row) return Error{Errc::io, path() + ": is damaged: a question had no answer"};
    return statement.integer_at(0);
}

Result<Transaction> Transaction::begin(Database& database) {
    TRY_VOID(database.begin());
    return Transaction(&database);
}

Transaction::~Transaction() {
    if (database_ != nullptr) database_->roll_back();
}

Status Transaction::commit() {
    CHECK(database_ != nullptr);
    TRY_VOID(database_->commit());
    database_ = nullptr;
    return base::Ok{};
}

}  // namespace helix::store
