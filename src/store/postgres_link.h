#pragma once

#include <libpq-fe.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::store {

struct ClearResult {
    void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

// A value on its way to the server, in its own binary form.
struct PgValue {
    Oid type = 0;
    std::string_view bytes;
};

// Says whether what goes to this address stays on the machine.
bool stays_on_this_machine(const sockaddr_storage& peer);

// libpq with our errors and with a limit to every wait. A connection that is lost stays so until
// connect() is called. Error unavailable: the server is away, or in the way of somebody. Error
// invalid, of the first connect(): it is there and refuses us. One thread at a time.
class PostgresLink {
  public:
    // Error invalid: the URL is none. It is not in the message, since a password may be in it.
    static base::Result<std::unique_ptr<PostgresLink>> make(const std::string& url);
    ~PostgresLink() { drop(); }
    PostgresLink(const PostgresLink&) = delete;
    PostgresLink& operator=(const PostgresLink&) = delete;

    base::Status connect();
    bool connected() const { return connection_ != nullptr; }
    void drop();
    // "PostgreSQL at HOST:PORT/DATABASE"
    const std::string& name() const { return name_; }

    // Any number of statements without values; the result of the last one, as text.
    base::Result<PgResult> say(const std::string& sql);
    // One statement with values; it is parsed once for each connection. Its rows are binary.
    base::Result<PgResult> ask(const std::string& sql, const std::vector<PgValue>& values);
    // The same without a wait for its answer, which settle() has.
    base::Status send(const std::string& sql, const std::vector<PgValue>& values);
    // Waits for the answers to all that was sent: the first error of them, else how many rows the
    // last statement of all changed.
    base::Result<std::int64_t> settle();

  private:
    PostgresLink(std::string url, std::string name)
        : url_(std::move(url)), name_(std::move(name)) {}
    PGconn* dial(const char* ssl_mode) const;
    bool refuses() const;
    base::Status set_up();
    void warn_if_open() const;
    bool await_bytes(std::chrono::steady_clock::time_point until);
    base::Result<PGresult*> next_result();
    base::Result<PgResult> last_result();
    base::Result<std::string> parsed(const std::string& sql, const std::vector<PgValue>& values);
    base::Error lost(const std::string& why);
    base::Error error_of(const PGresult* result);

    const std::string url_;
    const std::string name_;
    PGconn* connection_ = nullptr;
    bool connected_before_ = false;
    std::map<std::string, std::string> parsed_;  // by SQL and types, the server's name for it
    std::size_t sent_ = 0;                       // and not settled
    std::size_t sent_bytes_ = 0;
    std::int64_t changed_ = 0;  // by the last statement that was answered
};

}  // namespace helix::store
