#include "store/job_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

namespace {

constexpr std::int64_t kApplicationId = 0x486c6978;  // "Hlix", in the file's header
constexpr std::int64_t kSchemaVersion = 1;

// results is a table of its own so that it only ever grows: the primary key is the promise that a
// line has one result. seq gives lists their order; ids are what users see.
constexpr const char* kSchema = R"(
CREATE TABLE files(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    purpose TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,  -- but a batch still reads it
    batch INTEGER,                       -- of a result file: whose
    errors INTEGER NOT NULL DEFAULT 0);  -- of a result file: the error file
CREATE TABLE pieces(
    file INTEGER NOT NULL REFERENCES files(seq) ON DELETE CASCADE,
    piece INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY(file, piece));
CREATE TABLE batches(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    input_file TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    completion_window TEXT NOT NULL,
    metadata TEXT NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    errors TEXT NOT NULL DEFAULT '',
    status INTEGER NOT NULL,
    output_file TEXT NOT NULL DEFAULT '',
    error_file TEXT NOT NULL DEFAULT '',
    expires_at INTEGER NOT NULL,
    at0 INTEGER NOT NULL DEFAULT 0, at1 INTEGER NOT NULL DEFAULT 0,
    at2 INTEGER NOT NULL DEFAULT 0, at3 INTEGER NOT NULL DEFAULT 0,
    at4 INTEGER NOT NULL DEFAULT 0, at5 INTEGER NOT NULL DEFAULT 0,
    at6 INTEGER NOT NULL DEFAULT 0, at7 INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX unfinished_batches ON batches(seq) WHERE status IN (0, 2, 3, 6);
CREATE TABLE lines(
    batch INTEGER NOT NULL REFERENCES batches(seq) ON DELETE CASCADE,
    line INTEGER NOT NULL,
    custom_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY(batch, line),
    UNIQUE(batch, custom_id)) WITHOUT ROWID;
CREATE TABLE results(
    batch INTEGER NOT NULL,
    line INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY(batch, line),
    FOREIGN KEY(batch, line) REFERENCES lines(batch, line) ON DELETE CASCADE);
)";

// What users type and clients hold is theirs to read only.
Status make_folder(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (fs::is_directory(folder, failed)) return base::Ok{};
    fs::create_directories(folder, failed);
    if (!failed) fs::permissions(folder, fs::perms::owner_all, failed);
    if (failed) {
        return Error{Errc::io,
                     fmt::format("{}: cannot make this folder: {}", folder, failed.message())};
    }
    return base::Ok{};
}

}  // namespace

const char* to_string(BatchStatus status) {
    static constexpr const char* kNames[kBatchStatuses] = {"validating", "failed",    "in_progress",
                                                           "finalizing", "completed", "expired",
                                                           "cancelling", "cancelled"};
    return kNames[static_cast<std::size_t>(status)];
}

bool is_over(BatchStatus status) {
    return status == BatchStatus::failed || status == BatchStatus::completed ||
           status == BatchStatus::expired || status == BatchStatus::cancelled;
}

Result<std::unique_ptr<JobStore>> JobStore::open(const std::string& folder) {
    TRY_VOID(make_folder(folder));
    TRY(auto database, Database::open((std::filesystem::path(folder) / "helix.db").string()));
    std::unique_ptr<JobStore> store(new JobStore(std::move(database)));
    TRY_VOID(store->prepare_schema());
    return store;
}

Status JobStore::prepare_schema() {
    TRY(const std::int64_t tables, db_->number("SELECT count(*) FROM sqlite_master"));
    TRY(const std::int64_t application, db_->number("PRAGMA application_id"));
    TRY(const std::int64_t version, db_->number("PRAGMA user_version"));
    if (tables == 0) {
        TRY(Transaction transaction, Transaction::begin(*db_));
        TRY_VOID(db_->execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={};{}",
                                          kApplicationId, kSchemaVersion, kSchema)));
        return transaction.commit();
    }
    if (application != kApplicationId) {
        return base::invalid(db_->path() + ": is a database of another program");
    }
    if (version > kSchemaVersion) {
        return base::invalid(
            fmt::format("{}: was written by a newer Helix (version {} of its tables; this one "
                        "knows {})",
                        db_->path(), version, kSchemaVersion));
    }
    return base::Ok{};
}

// Of the same random source as SQLite's own; 96 bits do not meet twice.
Result<std::string> JobStore::new_id(std::string_view prefix) const {
    TRY(Statement statement, db_->prepare("SELECT lower(hex(randomblob(12)))"));
    TRY(const bool row, statement.step());
    if (!row) return Error{Errc::internal, db_->path() + ": gave no random id"};
    return std::string(prefix) + statement.text_at(0);
}

}  // namespace helix::store
