#include "store/schema.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

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
    if (version > schema.version) {
        return base::invalid(
            fmt::format("{}: was written by a newer Helix (version {} of its tables; this one "
                        "knows {})",
                        database.path(), version, schema.version));
    }
    return base::Ok{};
}

Status make_folder(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (fs::is_directory(folder, failed)) return base::Ok{};
    fs::create_directories(folder, failed);
    if (!failed) fs::permissions(folder, fs::perms::owner_all, failed);
    if (failed) {
        return base::Error{base::Errc::io, fmt::format("{}: cannot make this folder: {}", folder,
                                                       failed.message())};
    }
    return base::Ok{};
}

}  // namespace helix::store
