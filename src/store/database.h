#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

// SQLite with our errors: every failure of the library is a Result that names the file.

struct sqlite3;
struct sqlite3_stmt;

namespace helix::store {

class Database;

// One prepared statement. Parameters are bound in the order of the calls; what a view shows must
// outlive the next step().
class Statement {
  public:
    Statement(Statement&& other) noexcept;
    Statement& operator=(Statement&& other) noexcept;
    ~Statement();

    Statement& integer(std::int64_t value);
    Statement& real(double value);
    Statement& text(std::string_view value);
    Statement& blob(std::string_view value);
    Statement& null();

    // Returns true if there is a row. A value that could not be bound is reported here.
    base::Result<bool> step();
    // Runs the statement to its end without looking at rows. Afterwards it is ready for the next
    // values.
    base::Status run();
    void reset();

    // Values of the row that step() found. Text and blobs are valid until the next step().
    std::int64_t integer_at(int column) const;
    double real_at(int column) const;
    std::string text_at(int column) const;
    std::string_view blob_at(int column) const;
    bool null_at(int column) const;

  private:
    friend class Database;
    Statement(const Database* database, sqlite3_stmt* statement)
        : database_(database), statement_(statement) {}
    void note(int code);

    const Database* database_;
    sqlite3_stmt* statement_;
    int next_ = 1;
    int failed_ = 0;  // SQLite's code
};

// One connection, held by one process: a second one that opens the file is told that it is in use.
// What a committed transaction wrote survives the end of the process and of the machine (WAL,
// synced at every commit). One thread at a time. Statements have the function helix_hash(value,
// ...): 16 bytes that tell whether these values are what they were.
class Database {
  public:
    // Opens the file, and makes it, for its owner only, when it is not there. Error unavailable:
    // another process has it.
    static base::Result<std::unique_ptr<Database>> open(const std::string& path);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    // Runs any number of statements that have no values and no rows.
    base::Status execute(const std::string& sql) const;
    base::Result<Statement> prepare(std::string_view sql) const;
    // The first column of the first row; error io when there is no row.
    base::Result<std::int64_t> number(std::string_view sql) const;
    std::int64_t last_row() const;
    // The number of rows that the last statement changed.
    std::int64_t changed() const;
    base::Error error(int code) const;
    const std::string& path() const { return path_; }

  private:
    Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
    base::Status configure();

    std::string path_;
    sqlite3* handle_;
};

// A transaction, which begins at once. What is not committed never happened.
class Transaction {
  public:
    static base::Result<Transaction> begin(const Database& database);
    Transaction(Transaction&& other) noexcept;
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();
    base::Status commit();

  private:
    explicit Transaction(const Database* database) : database_(database) {}
    const Database* database_;  // null once it is over
};

}  // namespace helix::store
