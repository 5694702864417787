#include "store/postgres.h"

#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <endian.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "store/dialect.h"
#include "store/postgres_link.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// PostgreSQL's numbers of types: src/include/catalog/pg_type.dat
constexpr Oid kBool = 16;
constexpr Oid kBytes = 17;
constexpr Oid kInt8 = 20;
constexpr Oid kInt2 = 21;
constexpr Oid kInt4 = 23;
constexpr Oid kFloat8 = 701;

constexpr std::int64_t kStateApplicationId = 0x486c7374;  // "Hlst"
constexpr std::int64_t kStateLayout = 1;                  // of helix.owner and helix.stores
constexpr milliseconds kBetweenConnects{1000};

// Held while it is looked what is there and made what is not.
constexpr const char* kLookAlone =
    "BEGIN READ WRITE; SELECT pg_advisory_xact_lock(x'486c7374'::bigint)";
constexpr const char* kWhatIsThere =
    "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace=to_regnamespace('helix')::oid), "
    "(SELECT count(*) FROM pg_attribute WHERE attrelid=to_regclass('helix.owner')::oid AND attname "
    "IN ('application', 'layout', 'term', 'owner')), (to_regclass('helix.stores') IS NOT "
    "NULL)::int";
constexpr const char* kStateTables =
    "CREATE SCHEMA IF NOT EXISTS helix;"
    "CREATE TABLE helix.owner(\"only\" bigint PRIMARY KEY CHECK(\"only\" = 1), application bigint "
    "NOT NULL, layout bigint NOT NULL, term bigint NOT NULL, owner text NOT NULL, since "
    "timestamptz NOT NULL DEFAULT now());"
    "CREATE TABLE helix.stores(application bigint PRIMARY KEY, version bigint NOT NULL)";

std::int64_t number_in(const PgResult& result, int column) {
    std::int64_t value = 0;
    const char* text = PQgetvalue(result.get(), 0, column);
    std::from_chars(text, text + std::strlen(text), value);
    return value;
}

class PostgresDatabase final : public Database {
  public:
    PostgresDatabase(std::unique_ptr<PostgresLink> link, std::int64_t term, std::string owner)
        : link_(std::move(link)), term_(term), owner_(std::move(owner)) {}

    // Connects for the first time, and takes what is there.
    Status open();

    Status execute(const std::string& sql) override;
    Result<Statement> prepare(std::string_view sql) override;
    Result<std::int64_t> changed() override { return link_->settle(); }
    const std::string& path() const override { return link_->name(); }
    Status begin() override;
    Status commit() override;
    void roll_back() override;
    Result<Mark> read_mark(std::int64_t application_id) override;
    Status write_mark(std::int64_t application_id, std::int64_t version) override;
    Status check_tables() override;
    // The server checks pages where it was set up so (initdb --data-checksums).
    Status check_whole() override { return base::Ok{}; }
    // Its files have room of deleted rows in them, as autovacuum finds right.
    Result<std::optional<std::int64_t>> bytes_taken() override {
        return std::optional<std::int64_t>();
    }
    Status give_room_back() override { return base::Ok{}; }

    Result<PgResult> ask(const std::string& sql, const std::vector<PgValue>& values);
    Status write(const std::string& sql, const std::vector<PgValue>& values);

  private:
    Status be_connected();
    Status take();
    Status take_from(const PgResult& owner);
    Error taken_over(std::int64_t term) const;
    template <typename Ask>
    Result<PgResult> with_a_second_try(const Ask& ask);

    std::unique_ptr<PostgresLink> link_;
    const std::int64_t term_;
    const std::string owner_;
    bool in_transaction_ = false;
    bool told_loss_ = false;
    bool told_takeover_ = false;
    steady_clock::time_point next_connect_;
    std::string why_not_;  // connected
};

class PostgresStatement final : public StatementEngine {
  public:
    PostgresStatement(PostgresDatabase& database, std::string sql)
        : database_(database), sql_(std::move(sql)) {}

    void bind(int parameter, std::int64_t value) override {
        keep_number(parameter, kInt8, static_cast<std::uint64_t>(value));
    }
    void bind(int parameter, double value) override {
        keep_number(parameter, kFloat8, std::bit_cast<std::uint64_t>(value));
    }
    void bind_text(int parameter, std::string_view value) override { bind_blob(parameter, value); }
    void bind_blob(int parameter, std::string_view value) override {
        place(parameter) = {kBytes, value};
    }
    Result<bool> step() override {
        if (result_ == nullptr) {
            TRY(result_, database_.ask(sql_, values_));
            row_ = -1;
        }
        if (++row_ < PQntuples(result_.get())) return true;
        row_ = PQntuples(result_.get()) - 1;
        return false;
    }
    Status run() override {
        const Status status = database_.write(sql_, values_);
        reset();
        return status;
    }
    void reset() override {
        result_.reset();
        values_.clear();
        numbers_.clear();
    }
    std::int64_t integer_at(int column) const override;
    double real_at(int column) const override {
        if (null_at(column)) return 0;
        CHECK(PQftype(result_.get(), column) == kFloat8);
        return std::bit_cast<double>(big_endian<std::uint64_t>(column));
    }
    std::string_view bytes_at(int column) const override {
        const int length = PQgetlength(result_.get(), row_, column);
        return {PQgetvalue(result_.get(), row_, column), static_cast<std::size_t>(length)};
    }
    bool null_at(int column) const override {
        return PQgetisnull(result_.get(), row_, column) == 1;
    }

  private:
    PgValue& place(int parameter) {
        const auto at = static_cast<std::size_t>(parameter);
        if (values_.size() <= at) values_.resize(at + 1);
        return values_[at];
    }
    void keep_number(int parameter, Oid type, std::uint64_t bits) {
        const std::uint64_t swapped = htobe64(bits);
        std::array<char, sizeof swapped>& kept = numbers_.emplace_back();
        std::memcpy(kept.data(), &swapped, sizeof swapped);
        place(parameter) = {type, {kept.data(), kept.size()}};
    }
    template <typename Number>
    Number big_endian(int column) const {
        const std::string_view bytes = bytes_at(column);
        CHECK(bytes.size() == sizeof(Number));
        Number value = 0;
        for (const char byte : bytes) {
            value = static_cast<Number>(value << 8U | static_cast<unsigned char>(byte));
        }
        return value;
    }

    PostgresDatabase& database_;
    const std::string sql_;
    std::vector<PgValue> values_;
    std::deque<std::array<char, 8>> numbers_;  // what values_ shows
    PgResult result_;
    int row_ = -1;
};

std::int64_t PostgresStatement::integer_at(int column) const {
    if (null_at(column)) return 0;
    switch (PQftype(result_.get(), column)) {
        case kInt8:
            return static_cast<std::int64_t>(big_endian<std::uint64_t>(column));
        case kInt4:
            return static_cast<std::int32_t>(big_endian<std::uint32_t>(column));
        case kInt2:
            return static_cast<std::int16_t>(big_endian<std::uint16_t>(column));
        case kBool:
            return bytes_at(column) == std::string_view("\1") ? 1 : 0;
        default:
            break;
    }
    LOG_ERROR("column {} of a result is no integer: {}", column, sql_);
    CHECK(false);
    return 0;
}

// ---- the connection

Status PostgresDatabase::open() {
    TRY_VOID(link_->connect());
    return take();
}

Status PostgresDatabase::be_connected() {
    if (link_->connected()) return base::Ok{};
    if (in_transaction_) {
        return Error{Errc::unavailable, path() + ": went away in the middle of a transaction"};
    }
    if (!told_loss_) LOG_WARN("{} is away: it is tried again until it answers", path());
    told_loss_ = true;
    // Whoever asks meanwhile is told so at once.
    if (steady_clock::now() < next_connect_) return Error{Errc::unavailable, why_not_};
    const Status connected = link_->connect();
    if (!connected.ok()) {
        why_not_ = connected.error().message;
        next_connect_ = steady_clock::now() + kBetweenConnects;
        return Error{Errc::unavailable, why_not_};
    }
    LOG_INFO("{} answers again", path());
    told_loss_ = false;
    return base::Ok{};
}

// A connection that nobody used may be long gone; then nothing has been done, and a new one does.
template <typename Ask>
Result<PgResult> PostgresDatabase::with_a_second_try(const Ask& ask) {
    const bool fresh = !link_->connected();
    TRY_VOID(be_connected());
    auto answer = ask();
    if (answer.ok() || fresh || in_transaction_ || link_->connected()) return answer;
    TRY_VOID(be_connected());
    return ask();
}

// ---- whose it is

Error PostgresDatabase::taken_over(std::int64_t term) const {
    return {Errc::denied, fmt::format("{}: another coordinator (term {}) has taken over this state "
                                      "(this one has term {})",
                                      path(), term, term_)};
}

Status PostgresDatabase::take() {
    TRY_VOID(link_->say(kLookAlone));
    in_transaction_ = true;
    const auto give_up = [this](const Error& error) {
        roll_back();
        return error;
    };
    const auto there = link_->say(kWhatIsThere);
    if (!there.ok()) return give_up(there.error());
    if (number_in(*there, 0) == 0) {
        const auto made = link_->say(kStateTables);
        if (!made.ok()) return give_up(made.error());
    } else if (number_in(*there, 1) != 4 || number_in(*there, 2) != 1) {
        return give_up(base::invalid(path() + ": its schema helix is of another program"));
    }
    const auto owner =
        link_->say("SELECT application, layout, term, owner FROM helix.owner FOR UPDATE");
    if (!owner.ok()) return give_up(owner.error());
    const Status taken = take_from(*owner);
    if (!taken.ok()) return give_up(taken.error());
    const Status done = commit();
    return done.ok() ? done : Status(give_up(done.error()));
}

Status PostgresDatabase::take_from(const PgResult& owner) {
    constexpr const char* kKeep =
        "INSERT INTO helix.owner(\"only\", application, layout, term, owner) VALUES(1, {0}, {1}, "
        "{2}, '{3}') ON CONFLICT(\"only\") DO UPDATE SET term={2}, owner='{3}', since=now()";
    if (PQntuples(owner.get()) > 0) {
        if (number_in(owner, 0) != kStateApplicationId) {
            return base::invalid(path() + ": its schema helix is of another program");
        }
        if (number_in(owner, 1) > kStateLayout) {
            return base::invalid(fmt::format(
                "{}: was written by a newer Helix (layout {} of its state; this one knows {})",
                path(), number_in(owner, 1), kStateLayout));
        }
        const std::int64_t term = number_in(owner, 2);
        const bool ours = term == term_ && owner_ == PQgetvalue(owner.get(), 0, 3);
        if (ours) return base::Ok{};
        if (term >= term_) return taken_over(term);
    }
    TRY_VOID(link_->say(
        fmt::format(fmt::runtime(kKeep), kStateApplicationId, kStateLayout, term_, owner_)));
    return base::Ok{};
}

// ---- what the stores say

Result<PgResult> PostgresDatabase::ask(const std::string& sql, const std::vector<PgValue>& values) {
    return with_a_second_try([&] { return link_->ask(sql, values); });
}

Status PostgresDatabase::write(const std::string& sql, const std::vector<PgValue>& values) {
    if (in_transaction_) return link_->send(sql, values);
    TRY_VOID(ask(sql, values));
    return base::Ok{};
}

Status PostgresDatabase::execute(const std::string& sql) {
    TRY_VOID(with_a_second_try([&] { return link_->say(for_postgres(sql)); }));
    return base::Ok{};
}

Result<Statement> PostgresDatabase::prepare(std::string_view sql) {
    return Statement(std::make_unique<PostgresStatement>(*this, for_postgres(sql)));
}

Status PostgresDatabase::begin() {
    CHECK(!in_transaction_);
    auto begun = with_a_second_try([this] {
        return link_->say("BEGIN READ WRITE; SELECT term, owner FROM helix.owner FOR SHARE");
    });
    if (!begun.ok()) {
        roll_back();  // it may have begun before that
        return begun.error();
    }
    const PgResult owner = std::move(*begun);
    in_transaction_ = true;
    const bool there = PQntuples(owner.get()) == 1;
    const std::int64_t term = there ? number_in(owner, 0) : 0;
    if (there && term == term_ && owner_ == PQgetvalue(owner.get(), 0, 1)) return base::Ok{};
    roll_back();
    const Error error = taken_over(term);
    if (!told_takeover_) LOG_ERROR("{}: nothing more is written", error.message);
    told_takeover_ = true;
    return error;
}

Status PostgresDatabase::commit() {
    TRY_VOID(link_->settle());
    const bool there = link_->connected();
    const auto done = link_->say("COMMIT");
    if (!done.ok() && there && !link_->connected()) {
        return Error{Errc::unavailable,
                     done.error().message + ", while a transaction was ended: it is there or not"};
    }
    if (!done.ok()) return done.error();
    in_transaction_ = false;
    if (std::string_view(PQcmdStatus(done->get())) == "COMMIT") return base::Ok{};
    return Error{Errc::io, path() + ": a transaction with an error in it was not kept"};
}

void PostgresDatabase::roll_back() {
    if (link_->connected()) {
        const auto settled = link_->settle();  // an error of it is known, or does not matter now
        if (!settled.ok()) LOG_DEBUG("rollback: {}", settled.error().message);
    }
    if (link_->connected()) {
        const auto undone = link_->say("ROLLBACK");
        if (!undone.ok()) {
            LOG_DEBUG("rollback: {}", undone.error().message);
            link_->drop();
        }
    }
    in_transaction_ = false;
}

// ---- which tables are there

Result<Database::Mark> PostgresDatabase::read_mark(std::int64_t application_id) {
    TRY(Statement select, prepare("SELECT version FROM stores WHERE application=?"));
    TRY(const bool there, select.integer(application_id).step());
    if (!there) return Mark{};
    return Mark{false, application_id, select.integer_at(0)};
}

Status PostgresDatabase::write_mark(std::int64_t application_id, std::int64_t version) {
    TRY(Statement keep, prepare("INSERT INTO stores VALUES(?, ?) ON CONFLICT(application) DO "
                                "UPDATE SET version=excluded.version"));
    return keep.integer(application_id).integer(version).run();
}

Status PostgresDatabase::check_tables() {
    TRY(const std::int64_t foreign,
        number("SELECT (SELECT count(*) FROM pg_class WHERE relnamespace=to_regnamespace('helix')"
               "::oid AND relkind IN ('v', 'm', 'f')) + (SELECT count(*) FROM pg_trigger WHERE NOT "
               "tgisinternal AND tgrelid IN (SELECT oid FROM pg_class WHERE "
               "relnamespace=to_regnamespace('helix')::oid))"));
    if (foreign == 0) return base::Ok{};
    return base::invalid(path() +
                         ": its schema helix has views, triggers or foreign tables, which "
                         "Helix never makes");
}

}  // namespace

Result<std::unique_ptr<Database>> open_postgres(const Place& place) {
    CHECK(place.owner.find_first_of("'\\{}") == std::string::npos);
    TRY(auto link, PostgresLink::make(place.postgres));
    auto database = std::make_unique<PostgresDatabase>(
        std::move(link), static_cast<std::int64_t>(place.term), place.owner);
    TRY_VOID(database->open());
    return std::unique_ptr<Database>(std::move(database));
}

Status await_place(const Place& place, const std::function<bool()>& stopped) {
    constexpr milliseconds kPause{500};
    constexpr std::chrono::seconds kSayEvery{10};
    if (place.postgres.empty()) return base::Ok{};
    std::string said;
    steady_clock::time_point said_at;
    while (!stopped()) {
        const auto opened = open_postgres(place);
        if (opened.ok()) {
            LOG_INFO("state is kept in {} (term {})", (*opened)->path(), place.term);
            return base::Ok{};
        }
        if (opened.error().code != Errc::unavailable) return opened.error();
        const std::string& why = opened.error().message;
        if (why != said || steady_clock::now() - said_at > kSayEvery) {
            LOG_WARN("{}{}; waiting for it", why == said ? "still so: " : "", why);
            said = why;
            said_at = steady_clock::now();
        }
        std::this_thread::sleep_for(kPause);
    }
    return Error{Errc::unavailable, "stopped while the database of --state was waited for"};
}

}  // namespace helix::store
