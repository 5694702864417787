#include "store/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "store/value_hash.h"

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
// The most pages of 4 KiB that are given back to the file system at once when something is removed,
// which takes a moment. What stays free is used again.
constexpr int kVacuumPages = 16384;

// helix_hash(value, ...) for the upgrade of a database that has no hashes yet: a ValueHash.
void hash_values(sqlite3_context* context, int count, sqlite3_value** values) {
    ValueHash hash;
    for (int i = 0; i < count; ++i) {
        const int type = sqlite3_value_type(values[i]);
        if (type == SQLITE_INTEGER) {
            hash.number(sqlite3_value_int64(values[i]));
        } else if (type == SQLITE_NULL) {
            hash.null();
        } else {
            const auto* data = static_cast<const char*>(sqlite3_value_blob(values[i]));
            const auto bytes = static_cast<std::size_t>(sqlite3_value_bytes(values[i]));
            hash.text(data == nullptr ? std::string_view() : std::string_view(data, bytes));
        }
    }
    const std::string made = hash.bytes();
    sqlite3_result_blob(context, made.data(), static_cast<int>(made.size()), SQLITE_TRANSIENT);
}

class SqliteDatabase final : public Database {
  public:
    SqliteDatabase(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
    ~SqliteDatabase() override {
        const int code = sqlite3_close(handle_);
        CHECK(code == SQLITE_OK);  // every statement is gone before its database
    }
    Status configure();

    Status execute(const std::string& sql) override;
    Result<Statement> prepare(std::string_view sql) override;
    Result<std::int64_t> changed() override { return sqlite3_changes64(handle_); }
    const std::string& path() const override { return path_; }
    Status begin() override { return execute("BEGIN IMMEDIATE"); }
    Status commit() override { return execute("COMMIT"); }
    void roll_back() override;
    Result<Mark> read_mark(std::int64_t application_id) override;
    Status write_mark(std::int64_t application_id, std::int64_t version) override;
    Status check_tables() override;
    Status check_whole() override;
    Result<std::optional<std::int64_t>> bytes_taken() override;
    Status give_room_back() override {
        return execute(fmt::format("PRAGMA incremental_vacuum({})", kVacuumPages));
    }
    Error error(int code) const;

  private:
    std::string path_;
    sqlite3* handle_;
};

class SqliteStatement final : public StatementEngine {
  public:
    SqliteStatement(const SqliteDatabase& database, sqlite3_stmt* statement)
        : database_(database), statement_(statement) {}
    ~SqliteStatement() override { sqlite3_finalize(statement_); }
    SqliteStatement(const SqliteStatement&) = delete;
    SqliteStatement& operator=(const SqliteStatement&) = delete;

    void bind(int parameter, std::int64_t value) override {
        note(sqlite3_bind_int64(statement_, parameter + 1, value));
    }
    void bind(int parameter, double value) override {
        note(sqlite3_bind_double(statement_, parameter + 1, value));
    }
    void bind_text(int parameter, std::string_view value) override {
        note(sqlite3_bind_text64(statement_, parameter + 1, data_of(value), value.size(),
                                 SQLITE_STATIC, SQLITE_UTF8));
    }
    void bind_blob(int parameter, std::string_view value) override {
        note(sqlite3_bind_blob64(statement_, parameter + 1, data_of(value), value.size(),
                                 SQLITE_STATIC));
    }
    Result<bool> step() override {
        if (failed_ != 0) return database_.error(failed_);
        const int code = sqlite3_step(statement_);
        if (code == SQLITE_ROW) return true;
        if (code == SQLITE_DONE) return false;
        return database_.error(code);
    }
    Status run() override {
        while (true) {
            auto row = step();
            if (row.ok() && *row) continue;
            const Status status = row.ok() ? Status(base::Ok{}) : Status(row.error());
            reset();
            return status;
        }
    }
    void reset() override {
        sqlite3_reset(statement_);
        failed_ = 0;
    }
    std::int64_t integer_at(int column) const override {
        return sqlite3_column_int64(statement_, column);
    }
    double real_at(int column) const override { return sqlite3_column_double(statement_, column); }
    std::string_view bytes_at(int column) const override {
        const void* data = sqlite3_column_blob(statement_, column);
        const int bytes = sqlite3_column_bytes(statement_, column);
        if (data == nullptr) return {};
        return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
    }
    bool null_at(int column) const override {
        return sqlite3_column_type(statement_, column) == SQLITE_NULL;
    }

  private:
    // Without data SQLite takes a value for NULL.
    static const char* data_of(std::string_view value) {
        return value.data() == nullptr ? "" : value.data();
    }
    void note(int code) {
        if (code != SQLITE_OK && failed_ == 0) failed_ = code;
    }

    const SqliteDatabase& database_;
    sqlite3_stmt* statement_;
    int failed_ = 0;  // SQLite's code
};

// auto_vacuum counts only before the first table, locking_mode before the first use of the WAL.
Status SqliteDatabase::configure() {
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

Status SqliteDatabase::execute(const std::string& sql) {
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return error(code);
    return base::Ok{};
}

Result<Statement> SqliteDatabase::prepare(std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int code =
        sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
    if (code != SQLITE_OK) return error(code);
    return Statement(std::make_unique<SqliteStatement>(*this, statement));
}

void SqliteDatabase::roll_back() {
    const Status undone = execute("ROLLBACK");
    // Some failures, a full disk among them, have rolled back the transaction already.
    if (!undone.ok()) LOG_DEBUG("rollback: {}", undone.error().message);
}

Result<Database::Mark> SqliteDatabase::read_mark(std::int64_t /*application_id*/) {
    TRY(const std::int64_t tables, number("SELECT count(*) FROM sqlite_master"));
    TRY(const std::int64_t application, number("PRAGMA application_id"));
    TRY(const std::int64_t version, number("PRAGMA user_version"));
    return Mark{tables == 0, application, version};
}

Status SqliteDatabase::write_mark(std::int64_t application_id, std::int64_t version) {
    return execute(
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", application_id, version));
}

Status SqliteDatabase::check_tables() {
    TRY(const std::int64_t foreign,
        number("SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') "
               "OR (type='table' AND rootpage=0)"));
    if (foreign == 0) return base::Ok{};
    return base::invalid(path_ +
                         ": has views, triggers or virtual tables, which Helix never makes");
}

Status SqliteDatabase::check_whole() {
    TRY(Statement statement, prepare("PRAGMA quick_check(1)"));
    TRY(const bool row, statement.step());
    if (row && statement.text_at(0) == "ok") return base::Ok{};
    return base::invalid(path_ + ": is damaged: " +
                         (row ? statement.text_at(0) : std::string("it cannot be checked")));
}

Result<std::optional<std::int64_t>> SqliteDatabase::bytes_taken() {
    TRY(const std::int64_t bytes,
        number("SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "
               "pragma_freelist_count, pragma_page_size"));
    return std::optional(bytes);
}

Error SqliteDatabase::error(int code) const {
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

}  // namespace

Result<std::unique_ptr<Database>> open_sqlite(const std::string& path) {
    TRY_VOID(base::make_private_file(path));
    TRY_VOID(base::RegularFile::open(path));
    sqlite3* handle = nullptr;
    const int code =
        sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    auto database = std::make_unique<SqliteDatabase>(path, handle);
    if (code != SQLITE_OK) return database->error(code);
    TRY_VOID(database->configure());
    return std::unique_ptr<Database>(std::move(database));
}

}  // namespace helix::store
