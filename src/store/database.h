#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/place.h"

// The seam below the stores: one connection to a database, by one of two engines. What the stores
// say is written once, in the words that SQLite has; store/dialect.h puts them into PostgreSQL's.

namespace helix::store {

// What an engine knows of one prepared statement. Parameters count from 0, columns, too.
class StatementEngine {
  public:
    virtual ~StatementEngine() = default;
    virtual void bind(int parameter, std::int64_t value) = 0;
    virtual void bind(int parameter, double value) = 0;
    virtual void bind_text(int parameter, std::string_view value) = 0;
    virtual void bind_blob(int parameter, std::string_view value) = 0;
    virtual base::Result<bool> step() = 0;
    virtual base::Status run() = 0;
    virtual void reset() = 0;
    virtual std::int64_t integer_at(int column) const = 0;
    virtual double real_at(int column) const = 0;
    virtual std::string_view bytes_at(int column) const = 0;
    virtual bool null_at(int column) const = 0;
};

// One prepared statement. Parameters are bound in the order of the calls; what a view shows must
// outlive the next step().
class Statement {
  public:
    explicit Statement(std::unique_ptr<StatementEngine> engine) : engine_(std::move(engine)) {}

    Statement& integer(std::int64_t value) {
        engine_->bind(next_++, value);
        return *this;
    }
    Statement& real(double value) {
        engine_->bind(next_++, value);
        return *this;
    }
    Statement& text(std::string_view value) {
        engine_->bind_text(next_++, value);
        return *this;
    }
    Statement& blob(std::string_view value) {
        engine_->bind_blob(next_++, value);
        return *this;
    }

    // Returns true if there is a row. A value that could not be bound is reported here.
    base::Result<bool> step() { return engine_->step(); }
    // Runs the statement to its end without looking at rows. Afterwards it is ready for the next
    // values. In a transaction an error may come later, at the latest from its commit().
    base::Status run() {
        next_ = 0;
        return engine_->run();
    }
    void reset() {
        next_ = 0;
        engine_->reset();
    }

    // Values of the row that step() found. Blobs are valid until the next step().
    std::int64_t integer_at(int column) const { return engine_->integer_at(column); }
    double real_at(int column) const { return engine_->real_at(column); }
    std::string text_at(int column) const { return std::string(engine_->bytes_at(column)); }
    std::string_view blob_at(int column) const { return engine_->bytes_at(column); }
    bool null_at(int column) const { return engine_->null_at(column); }

  private:
    std::unique_ptr<StatementEngine> engine_;
    int next_ = 0;
};

// One connection. What a committed transaction wrote survives the end of the process and of the
// machine. Everything that writes does so in a Transaction. One thread at a time.
//
// Error unavailable: the database is away now, or in use; trying again later helps, and nothing of
// a transaction that was not committed has happened. Error denied: another coordinator has taken
// over.
class Database {
  public:
    // The database of this name in a folder, which is made when it is not there, or the one that
    // the place shares (where the name does not matter). Error unavailable: another process has it,
    // or it is away.
    static base::Result<std::unique_ptr<Database>> open(const Place& place,
                                                        const std::string& name);
    Database() = default;
    virtual ~Database() = default;
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    // Runs any number of statements that have no values and no rows.
    virtual base::Status execute(const std::string& sql) = 0;
    virtual base::Result<Statement> prepare(std::string_view sql) = 0;
    // The first column of the first row; error io when there is no row.
    base::Result<std::int64_t> number(std::string_view sql);
    // The number of rows that the last statement changed.
    virtual base::Result<std::int64_t> changed() = 0;
    // For people: a file, or a server. Never with a password.
    virtual const std::string& path() const = 0;

    virtual base::Status begin() = 0;
    virtual base::Status commit() = 0;
    virtual void roll_back() = 0;

    // Which of our databases it says that it is.
    struct Mark {
        bool empty = true;  // it has none of the tables yet
        std::int64_t application_id = 0;
        std::int64_t version = 0;
    };
    virtual base::Result<Mark> read_mark(std::int64_t application_id) = 0;
    virtual base::Status write_mark(std::int64_t application_id, std::int64_t version) = 0;
    // Error invalid: it has what computes, as views and triggers do, which we never make.
    virtual base::Status check_tables() = 0;
    // Error invalid: a part of it is damaged. A server checks its own files.
    virtual base::Status check_whole() = 0;
    // What it takes on disk, without what was deleted; none: it cannot be said without a look at
    // what is in it.
    virtual base::Result<std::optional<std::int64_t>> bytes_taken() = 0;
    // Gives room of what was deleted back to the file system, a bounded amount at once.
    virtual base::Status give_room_back() = 0;
};

// A transaction, which begins at once. What is not committed never happened.
class Transaction {
  public:
    static base::Result<Transaction> begin(Database& database);
    Transaction(Transaction&& other) noexcept
        : database_(std::exchange(other.database_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();
    // Error unavailable may also mean that the database went away on the way, and what was written
    // is there or not.
    base::Status commit();

  private:
    explicit Transaction(Database* database) : database_(database) {}
    Database* database_;  // null once it is over
};

}  // namespace helix::store
