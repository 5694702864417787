#include "store/postgres_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr const char* kConnectLimit = "5";  // seconds, for each host of the URL
constexpr std::chrono::seconds kAnswerLimit{30};
constexpr int kLooksBeforeRefused = 2;  // a server may have started between two looks
constexpr milliseconds kBetweenLooks{300};
// So much is on its way at most before its answers are waited for.
constexpr std::size_t kMostSent = 128;
constexpr std::size_t kMostSentBytes = std::size_t{4} << 20U;

// Who holds a lock and says nothing any more (its machine stands still) is put out by the server,
// so that the next one need not wait for it longer.
constexpr const char* kSession =
    "SET search_path TO helix; SET default_transaction_read_only TO on;"
    "SET idle_in_transaction_session_timeout TO '5s'; SET lock_timeout TO '4s';"
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'";

void to_log(void* /*unused*/, const char* text) {
    LOG_DEBUG("PostgreSQL: {}", text);
}

// What libpq says in one line.
std::string one_line(const char* text) {
    std::string out = text == nullptr ? "" : text;
    while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
    std::replace(out.begin(), out.end(), '\n', ' ');
    std::replace(out.begin(), out.end(), '\t', ' ');
    return out;
}

// Where a password has '@' or '/' in it as they are, its rest would be taken for a host or a
// database, and be shown as one.
bool is_ambiguous(const std::string& url) {
    const std::size_t begin = url.find("://") + 3;
    const std::string rest = url.substr(begin, url.find('?', begin) - begin);
    const std::size_t at = rest.find('@');
    if (at == std::string::npos) return false;
    return rest.find('@', at + 1) != std::string::npos || rest.find('/') < at;
}

// One for each host, or one for all; where there is none, the usual one.
bool are_ports(std::string_view text) {
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find(','));
        std::uint16_t port = 0;
        const auto read = std::from_chars(one.data(), one.data() + one.size(), port);
        const bool number = read.ec == std::errc() && read.ptr == one.data() + one.size();
        if (!one.empty() && (!number || port == 0)) return false;
        text.remove_prefix(std::min(text.size(), one.size() + 1));
    }
    return true;
}

std::string else_variable(const char* given, const char* variable, const char* usual) {
    if (given != nullptr && *given != '\0') return given;
    const char* set = std::getenv(variable);
    return set != nullptr && *set != '\0' ? set : usual;
}

std::int64_t changed_by(PGresult* result) {
    const std::string_view count = PQcmdTuples(result);
    std::int64_t rows = 0;
    std::from_chars(count.data(), count.data() + count.size(), rows);
    return rows;
}

bool starts_with_any(std::string_view state, std::initializer_list<std::string_view> kinds) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](std::string_view kind) { return state.starts_with(kind); });
}

// Codes of states: https://www.postgresql.org/docs/current/errcodes-appendix.html
Errc kind_of(std::string_view state) {
    // Connections, shutdowns and starts, no more of something, locks that others have, and a server
    // that follows another one.
    if (starts_with_any(state, {"08", "57P", "53", "55P03", "25006", "40", "25P03", "57014"})) {
        return Errc::unavailable;
    }
    if (starts_with_any(state, {"54"})) return Errc::too_large;
    return Errc::io;
}

}  // namespace

Result<std::unique_ptr<PostgresLink>> PostgresLink::make(const std::string& url) {
    const std::string expected = "expected postgres://USER@HOST:PORT/DATABASE";
    if (!url.starts_with("postgres://") && !url.starts_with("postgresql://")) {
        return base::invalid("--state: " + expected);
    }
    if (is_ambiguous(url)) {
        return base::invalid(
            "--state: '@' and '/' in a user's name or a password are written as %40 and %2F");
    }
    char* why = nullptr;  // has the URL in it
    PQconninfoOption* options = PQconninfoParse(url.c_str(), &why);
    PQfreemem(why);
    if (options == nullptr) return base::invalid("--state: " + expected + ", and got another form");
    const char* host = nullptr;
    const char* port = nullptr;
    const char* database = nullptr;
    for (const PQconninfoOption* one = options; one->keyword != nullptr; ++one) {
        if (one->val == nullptr) continue;
        const std::string_view keyword = one->keyword;
        if (keyword == "host" || (keyword == "hostaddr" && host == nullptr)) host = one->val;
        if (keyword == "port") port = one->val;
        if (keyword == "dbname") database = one->val;
    }
    const bool good = are_ports(port == nullptr ? "" : port);
    const std::string name = fmt::format(
        "PostgreSQL at {}:{}/{}", else_variable(host, "PGHOST", "the local socket"),
        else_variable(port, "PGPORT", "5432"), else_variable(database, "PGDATABASE", ""));
    PQconninfoFree(options);
    if (!good) return base::invalid("--state: " + expected + ", and its port is no number of one");
    return std::unique_ptr<PostgresLink>(new PostgresLink(url, name));
}

void PostgresLink::drop() {
    PQfinish(std::exchange(connection_, nullptr));
    parsed_.clear();
    sent_ = 0;
    sent_bytes_ = 0;
}

// What comes before the URL gives way to it, what comes behind it does not.
PGconn* PostgresLink::dial(const char* ssl_mode) const {
    const std::array keywords = {"connect_timeout",
                                 "keepalives_idle",
                                 "keepalives_interval",
                                 "keepalives_count",
                                 "tcp_user_timeout",
                                 "application_name",
                                 "dbname",
                                 ssl_mode == nullptr ? nullptr : "sslmode",
                                 static_cast<const char*>(nullptr)};
    const std::array values = {kConnectLimit, "10",     "5",
                               "3",           "20000",  "helix",
                               url_.c_str(),  ssl_mode, static_cast<const char*>(nullptr)};
    return PQconnectdbParams(keywords.data(), values.data(), 1);
}

// Whether a server is there, but does not want us as we are, or nobody can be asked like that.
bool PostgresLink::refuses() const {
    const std::array keywords = {"connect_timeout", "dbname", "sslmode",
                                 static_cast<const char*>(nullptr)};
    const std::array values = {kConnectLimit, url_.c_str(), "prefer",
                               static_cast<const char*>(nullptr)};
    const PGPing answer = PQpingParams(keywords.data(), values.data(), 1);
    return answer == PQPING_OK || answer == PQPING_NO_ATTEMPT;
}

Status PostgresLink::connect() {
    drop();
    for (int look = 1;; ++look) {
        connection_ = dial(nullptr);
        if (PQstatus(connection_) == CONNECTION_OK) break;
        const std::string why = one_line(PQerrorMessage(connection_));
        drop();
        // One that knew us before may be on its way from a backup, or to another password.
        const bool refused = !connected_before_ && refuses();
        if (!refused) return Error{Errc::unavailable, name_ + ": " + why};
        if (look == kLooksBeforeRefused) return base::invalid(name_ + ": " + why);
        std::this_thread::sleep_for(kBetweenLooks);
    }
    PQsetNoticeProcessor(connection_, to_log, nullptr);
    PQsetnonblocking(connection_, 1);
    if (!connected_before_) warn_if_open();
    const auto set = say(kSession);
    if (!set.ok()) {
        drop();
        return set.error();
    }
    connected_before_ = true;
    return base::Ok{};
}

bool stays_on_this_machine(const sockaddr_storage& peer) {
    constexpr std::uint32_t kLoopbackNet = 127;
    if (peer.ss_family == AF_UNIX) return true;
    if (peer.ss_family == AF_INET) {
        const auto* four = reinterpret_cast<const sockaddr_in*>(&peer);
        return ntohl(four->sin_addr.s_addr) >> 24U == kLoopbackNet;
    }
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&peer);
    return peer.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

void PostgresLink::warn_if_open() const {
    if (PQsslInUse(connection_) == 1) return;
    sockaddr_storage peer = {};
    socklen_t bytes = sizeof peer;
    if (::getpeername(PQsocket(connection_), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) {
        return;
    }
    if (stays_on_this_machine(peer)) return;
    LOG_WARN(
        "--state: what goes to {} is not encrypted, files, batches and answers of clients among "
        "it: ?sslmode=verify-full is for networks that others use",
        name_);
}

// Waits until there is a result to get; false: not until then, or never.
bool PostgresLink::await_bytes(steady_clock::time_point until) {
    while (true) {
        const int unsent = PQflush(connection_);
        if (unsent < 0) return false;
        if (unsent == 0 && PQisBusy(connection_) == 0) return true;
        const auto left =
            std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
        if (left <= 0) return false;
        pollfd socket = {PQsocket(connection_),
                         static_cast<short>(unsent == 0 ? POLLIN : POLLIN | POLLOUT), 0};
        const int ready = ::poll(&socket, 1, static_cast<int>(left));
        if (ready < 0 && errno != EINTR) return false;
        const bool readable = ready > 0 && (socket.revents & ~POLLOUT) != 0;
        if (readable && PQconsumeInput(connection_) == 0) return false;
    }
}

Result<PGresult*> PostgresLink::next_result() {
    if (connection_ == nullptr) return Error{Errc::unavailable, name_ + ": is not connected"};
    const auto until = steady_clock::now() + kAnswerLimit;
    if (!await_bytes(until)) {
        const bool late = steady_clock::now() >= until;
        return lost(late ? fmt::format("does not answer for {} s", kAnswerLimit.count())
                         : one_line(PQerrorMessage(connection_)));
    }
    return PQgetResult(connection_);
}

// The last result of what was said, once all have come; the first error among them.
Result<PgResult> PostgresLink::last_result() {
    PgResult last;
    PgResult bad;
    while (true) {
        TRY(PGresult * got, next_result());
        if (got == nullptr) break;
        PgResult result(got);
        const ExecStatusType status = PQresultStatus(got);
        const bool good =
            status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
        if (!good && bad == nullptr) bad = std::move(result);
        if (good) last = std::move(result);
    }
    if (bad != nullptr) return error_of(bad.get());
    if (last == nullptr) return lost("gave no answer");
    changed_ = changed_by(last.get());
    return last;
}

Result<PgResult> PostgresLink::say(const std::string& sql) {
    TRY_VOID(settle());
    if (connection_ == nullptr) return Error{Errc::unavailable, name_ + ": is not connected"};
    if (PQsendQuery(connection_, sql.c_str()) == 0) {
        return lost(one_line(PQerrorMessage(connection_)));
    }
    return last_result();
}

// The server's name of the statement.
Result<std::string> PostgresLink::parsed(const std::string& sql,
                                         const std::vector<PgValue>& values) {
    std::string key = sql;
    std::vector<Oid> types;
    for (const PgValue& value : values) {
        types.push_back(value.type);
        key += ',' + std::to_string(value.type);
    }
    const auto found = parsed_.find(key);
    if (found != parsed_.end()) return found->second;
    TRY_VOID(settle());
    const std::string name = fmt::format("helix_{}", parsed_.size());
    if (PQsendPrepare(connection_, name.c_str(), sql.c_str(), static_cast<int>(types.size()),
                      types.data()) == 0) {
        return lost(one_line(PQerrorMessage(connection_)));
    }
    TRY_VOID(last_result());
    parsed_.emplace(std::move(key), name);
    return name;
}

namespace {

int send_values(PGconn* connection, const std::string& name, const std::vector<PgValue>& values) {
    std::vector<const char*> data;
    std::vector<int> lengths;
    for (const PgValue& value : values) {
        data.push_back(value.bytes.data() == nullptr ? "" : value.bytes.data());
        lengths.push_back(static_cast<int>(value.bytes.size()));
    }
    const std::vector<int> binary(values.size(), 1);
    return PQsendQueryPrepared(connection, name.c_str(), static_cast<int>(values.size()),
                               data.data(), lengths.data(), binary.data(), 1);
}

}  // namespace

Result<PgResult> PostgresLink::ask(const std::string& sql, const std::vector<PgValue>& values) {
    TRY_VOID(settle());
    if (connection_ == nullptr) return Error{Errc::unavailable, name_ + ": is not connected"};
    TRY(const std::string name, parsed(sql, values));
    if (send_values(connection_, name, values) == 0) {
        return lost(one_line(PQerrorMessage(connection_)));
    }
    return last_result();
}

Status PostgresLink::send(const std::string& sql, const std::vector<PgValue>& values) {
    if (connection_ == nullptr) return Error{Errc::unavailable, name_ + ": is not connected"};
    TRY(const std::string name, parsed(sql, values));
    const bool first = sent_ == 0;
    if ((first && PQenterPipelineMode(connection_) == 0) ||
        send_values(connection_, name, values) == 0) {
        return lost(one_line(PQerrorMessage(connection_)));
    }
    ++sent_;
    for (const PgValue& value : values) sent_bytes_ += value.bytes.size();
    if (sent_ >= kMostSent || sent_bytes_ >= kMostSentBytes) TRY_VOID(settle());
    return base::Ok{};
}

Result<std::int64_t> PostgresLink::settle() {
    if (sent_ == 0) return changed_;
    sent_ = 0;
    sent_bytes_ = 0;
    if (PQpipelineSync(connection_) == 0) return lost(one_line(PQerrorMessage(connection_)));
    PgResult bad;
    // Between the results of two statements comes one that is none.
    for (int none = 0; none < 3;) {
        TRY(PGresult * got, next_result());
        if (got == nullptr) {
            ++none;
            continue;
        }
        none = 0;
        PgResult result(got);
        const ExecStatusType status = PQresultStatus(got);
        if (status == PGRES_PIPELINE_SYNC) {
            if (PQexitPipelineMode(connection_) == 0) break;
            if (bad != nullptr) return error_of(bad.get());
            return changed_;
        }
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
            changed_ = changed_by(got);
        } else if (status != PGRES_PIPELINE_ABORTED && bad == nullptr) {
            bad = std::move(result);
        }
    }
    return lost(one_line(PQerrorMessage(connection_)));
}

Error PostgresLink::lost(const std::string& why) {
    drop();
    return {Errc::unavailable, name_ + ": " + (why.empty() ? "the connection was lost" : why)};
}

Error PostgresLink::error_of(const PGresult* result) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const std::string why = one_line(PQresultErrorMessage(result));
    if (state == nullptr || PQstatus(connection_) != CONNECTION_OK) return lost(why);
    const Errc kind = kind_of(state);
    // These end the connection, which libpq may not have seen yet.
    if (starts_with_any(state, {"57P", "25P03", "08"})) return lost(why);
    const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return {kind, fmt::format("{}: {} ({})", name_, primary == nullptr ? why : primary, state)};
}

}  // namespace helix::store
