#include "store/database.h"

#include <sqlite3.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/hasher.h"
#include "base/log.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

namespace {

// A coordinator that was killed a moment ago may not be gone yet.
constexpr int kBusyMs = 1500;
// No row that we write comes near this. A row that claims to be longer would take that much memory
// to read.
constexpr int kMaxRowBytes = 256 << 20;

// Hashes numbers and texts as they lie in memory, each behind its kind and length, so that no two
// lists of values look alike.
void hash_values(sqlite3_context* context, int count, sqlite3_value** values) {
    base::Hasher128 hasher;
    const auto add = [&](std::int64_t number) { hasher.add(std::as_bytes(std::span(&number, 1))); };
    for (int i = 0; i < count; ++i) {
        const int type = sqlite3_value_type(values[i]);
        if (type == SQLITE_INTEGER) {
            add(-1);
            add(sqlite3_value_int64(values[i]));
            continue;
        }
        const void* data = sqlite3_value_blob(values[i]);
        const int bytes = sqlite3_value_bytes(values[i]);
        add(type == SQLITE_NULL ? -2 : bytes);
        if (data == nullptr) continue;
        hasher.add({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)});
    }
    const base::Hash128 hash = hasher.hash();
    sqlite3_result_blob(context, &hash, sizeof hash, SQLITE_TRANSIENT);
}

}  // namespace

// ---- Statement
// --------------------------------------------------------------------------------------

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      next_(other.next_),
      failed_(other.failed_) {}

Statement& Statement::operator=(Statement&& other) noexcept {
    std::swap(database_, other.database_);
    std::swap(statement_, other.statement_);
    std::swap(next_, other.next_);
    std::swap(failed_, other.failed_);
    return *this;
}

Statement::~Statement() {
    sqlite3_finalize(statement_);
}

void Statement::note(int code) {
    if (code != SQLITE_OK && failed_ == 0) failed_ = code;
}

Statement& Statement::integer(std::int64_t value) {
    note(sqlite3_bind_int64(statement_, next_++, value));
    return *this;
}

Statement& Statement::real(double value) {
    note(sqlite3_bind_double(statement_, next_++, value));
    return *this;
}

Statement& Statement::text(std::string_view value) {
    note(sqlite3_bind_text64(statement_, next_++, value.data() == nullptr ? "" : value.data(),
                             value.size(), SQLITE_STATIC, SQLITE_UTF8));
    return *this;
}

Statement& Statement::blob(std::string_view value) {
    note(sqlite3_bind_blob64(statement_, next_++, value.data() == nullptr ? "" : value.data(),
                             value.size(), SQLITE_STATIC));
    return *this;
}

Statement& Statement::null() {
    note(sqlite3_bind_null(statement_, next_++));
    return *this;
}

Result<bool> Statement::step() {
    if (failed_ != 0) return database_->error(failed_);
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return database_->error(code);
}

Status Statement::run() {
    while (true) {
        auto row = step();
        if (row.ok() && *row) continue;
        const Status status = row.ok() ? Status(base::Ok{}) : Status(row.error());
        reset();
        return status;
    }
}

void Statement::reset() {
    sqlite3_reset(statement_);
    next_ = 1;
    failed_ = 0;
}

std::int64_t Statement::integer_at(int column) const {
    return sqlite3_column_int64(statement_, column);
}

double Statement::real_at(int column) const {
    return sqlite3_column_double(statement_, column);
}

std::string Statement::text_at(int column) const {
    return std::string(blob_at(column));
}

std::string_view Statement::blob_at(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    const int bytes = sqlite3_column_bytes(statement_, column);
    if (data == nullptr) return {};
    return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
}

bool Statement::null_at(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

// ---- Database
// ---------------------------------------------------------------------------------------

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
    TRY_VOID(base::make_private_file(path));
    TRY_VOID(base::RegularFile::open(path));
    sqlite3* handle = nullptr;
    const int code =
        sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    std::unique_ptr<Database> database(new Database(path, handle));
    if (code != SQLITE_OK) return database->error(code);
    TRY_VOID(database->configure());
    return database;
}

// auto_vacuum counts only before the first table, locking_mode before the first use of the WAL.
Status Database::configure() {
    sqlite3_busy_timeout(handle_, kBusyMs);
    sqlite3_extended_result_codes(handle_, 1);
    sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMaxRowBytes);
    // The file is data and not a program: its schema may not call functions.
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    const int made = sqlite3_create_function_v2(
        handle_, "helix_hash", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, nullptr,
        hash_values, nullptr, nullptr, nullptr);
    if (made != SQLITE_OK) return error(made);
    TRY_VOID(
        execute("PRAGMA auto_vacuum=INCREMENTAL;"
                "PRAGMA locking_mode=EXCLUSIVE;"
                "PRAGMA journal_mode=WAL;"
                "PRAGMA synchronous=FULL;"
                "PRAGMA foreign_keys=ON;"
                "PRAGMA journal_size_limit=16777216;"));
    // Takes the lock, for as long as the connection is open.
    return execute("BEGIN IMMEDIATE; COMMIT;");
}

Database::~Database() {
    const int code = sqlite3_close(handle_);
    CHECK(code == SQLITE_OK);  // every statement is gone before its database
}

Status Database::execute(const std::string& sql) const {
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return error(code);
    return base::Ok{};
}

Result<Statement> Database::prepare(std::string_view sql) const {
    sqlite3_stmt* statement = nullptr;
    const int code =
        sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
    if (code != SQLITE_OK) return error(code);
    return Statement(this, statement);
}

Result<std::int64_t> Database::number(std::string_view sql) const {
    TRY(Statement statement, prepare(sql));
    TRY(const bool row, statement.step());
    if (!row) return Error{Errc::io, path_ + ": is damaged: a question had no answer"};
    return statement.integer_at(0);
}

std::int64_t Database::last_row() const {
    return sqlite3_last_insert_rowid(handle_);
}

std::int64_t Database::changed() const {
    return sqlite3_changes64(handle_);
}

Error Database::error(int code) const {
    const int kind = code & 0xff;
    const char* said = handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_);
    // This is caused by what somebody asked for. All else is trouble with the file itself, and is
    // told with its path: to whoever runs the program, never to clients.
    if (kind == SQLITE_TOOBIG) return {Errc::too_large, said};
    if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) {
        return {Errc::unavailable, path_ + ": is in use by another process"};
    }
    if (kind == SQLITE_NOTADB) return base::invalid(path_ + ": is not a SQLite database");
    if (kind == SQLITE_CORRUPT) return base::invalid(path_ + ": is damaged");
    return {Errc::io, path_ + ": " + said};
}

// ---- Transaction
// ------------------------------------------------------------------------------------

Result<Transaction> Transaction::begin(const Database& database) {
    TRY_VOID(database.execute("BEGIN IMMEDIATE"));
    return Transaction(&database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
    if (database_ == nullptr) return;
    const Status undone = database_->execute("ROLLBACK");
    // Some failures, a full disk among them, have rolled back the transaction already.
    if (!undone.ok()) LOG_DEBUG("rollback: {}", undone.error().message);
}

Status Transaction::commit() {
    CHECK(database_ != nullptr);
    TRY_VOID(database_->execute("COMMIT"));
    database_ = nullptr;
    return base::Ok{};
}

}  // namespace helix::store
