#include "store/response_store.h"

#include <fmt/format.h>

#include "store/schema.h"
#include "store/value_hash.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

namespace {

constexpr const char* kResponseTables = R"(
CREATE TABLE responses(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    body BLOB NOT NULL,
    items BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    hash BLOB NOT NULL);
)";
constexpr std::int64_t kResponsesApplicationId = 0x486c7270;  // "Hlrp", in the file's header
constexpr Schema kResponses = {kResponsesApplicationId, 1, kResponseTables, {}};

std::string hash_of(std::string_view id, std::string_view body, std::string_view items) {
    return ValueHash().text(id).text(body).text(items).bytes();
}

Error no_response(std::string_view id) {
    return {Errc::not_found, fmt::format("No such response: '{}'.", id)};
}

}  // namespace

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(const Place& place,
                                                           std::int64_t max_bytes) {
    TRY(auto database, Database::open(place, "responses.db"));
    TRY_VOID(prepare_schema(*database, kResponses));
    return std::unique_ptr<ResponseStore>(new ResponseStore(std::move(database), max_bytes));
}

Status ResponseStore::save(const ResponseRecord& record) const {
    TRY(Transaction transaction, Transaction::begin(*db_));
    {
        TRY(Statement replaced, db_->prepare("DELETE FROM responses WHERE id = ?"));
        TRY_VOID(replaced.text(record.id).run());
        TRY(Statement insert, db_->prepare("INSERT INTO responses(id, body, items, bytes, hash) "
                                           "VALUES(?, ?, ?, ?, ?)"));
        const std::string hash = hash_of(record.id, record.body, record.items);
        insert.text(record.id).blob(record.body).blob(record.items);
        insert.integer(std::ssize(record.body) + std::ssize(record.items)).blob(hash);
        TRY_VOID(insert.run());
        // The oldest go, as many as are over the limit together with all that are newer.
        TRY(Statement forget,
            db_->prepare("DELETE FROM responses WHERE seq <= (SELECT max(seq) FROM (SELECT seq, "
                         "sum(bytes) OVER (ORDER BY seq DESC) AS newer FROM responses) AS sums "
                         "WHERE newer > ?)"));
        TRY_VOID(forget.integer(max_bytes_).run());
    }
    return transaction.commit();
}

Result<ResponseRecord> ResponseStore::find(std::string_view id) const {
    TRY(Statement select, db_->prepare("SELECT body, items, hash FROM responses WHERE id = ?"));
    select.text(id);
    TRY(const bool row, select.step());
    if (!row) return no_response(id);
    if (select.blob_at(2) != hash_of(id, select.blob_at(0), select.blob_at(1))) {
        return Error{Errc::internal, fmt::format("The stored response '{}' is damaged.", id)};
    }
    return ResponseRecord{std::string(id), std::string(select.blob_at(0)),
                          std::string(select.blob_at(1))};
}

Status ResponseStore::remove(std::string_view id) const {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(Statement statement, db_->prepare("DELETE FROM responses WHERE id = ?"));
    TRY_VOID(statement.text(id).run());
    TRY(const std::int64_t removed, db_->changed());
    if (removed == 0) return no_response(id);
    return transaction.commit();
}

}  // namespace helix::store
