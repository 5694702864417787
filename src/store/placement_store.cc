#include "store/placement_store.h"

#include <array>
#include <string_view>

#include "store/schema.h"

namespace helix::store {

using base::Result;
using base::Status;

namespace {

constexpr const char* kTables = R"(
CREATE TABLE placement(
    "only" INTEGER PRIMARY KEY CHECK("only" = 1),
    model TEXT NOT NULL);
CREATE TABLE holders(
    seq INTEGER PRIMARY KEY,
    worker TEXT NOT NULL UNIQUE,
    first_layer INTEGER NOT NULL,
    end_layer INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL);
CREATE TABLE flows(
    seq INTEGER PRIMARY KEY,
    sender TEXT NOT NULL,    -- '' = the coordinator
    receiver TEXT NOT NULL,
    tokens_per_s REAL NOT NULL);
CREATE TABLE drains(
    worker TEXT PRIMARY KEY,
    remove INTEGER NOT NULL);  -- 1: and dismissed
)";

// Version 2: drains.
constexpr std::array<const char*, 1> kUpgrades = {R"(
CREATE TABLE drains(
    worker TEXT PRIMARY KEY,
    remove INTEGER NOT NULL);
)"};

constexpr std::int64_t kPlacementsApplicationId = 0x486c6970;  // "Hlip", in the file's header
constexpr Schema kPlacement = {kPlacementsApplicationId, 2, kTables, kUpgrades};

}  // namespace

Result<std::unique_ptr<PlacementStore>> PlacementStore::open(const Place& place) {
    TRY(auto database, Database::open(place, "placement.db"));
    // A damaged page may lie where nobody looks until it is too late.
    TRY_VOID(database->check_whole());
    TRY_VOID(prepare_schema(*database, kPlacement));
    return std::unique_ptr<PlacementStore>(new PlacementStore(std::move(database)));
}

Result<std::optional<PlacementRecord>> PlacementStore::load() const {
    TRY(Statement model, db_->prepare("SELECT model FROM placement"));
    TRY(const bool saved, model.step());
    if (!saved) return std::optional<PlacementRecord>();
    PlacementRecord record;
    record.model = model.text_at(0);
    TRY(Statement holders, db_->prepare("SELECT worker, first_layer, end_layer, memory_bytes "
                                        "FROM holders ORDER BY seq"));
    while (true) {
        TRY(const bool row, holders.step());
        if (!row) break;
        record.holders.push_back({holders.text_at(0), holders.integer_at(1), holders.integer_at(2),
                                  holders.integer_at(3)});
    }
    TRY(Statement flows,
        db_->prepare("SELECT sender, receiver, tokens_per_s FROM flows ORDER BY seq"));
    while (true) {
        TRY(const bool row, flows.step());
        if (!row) break;
        record.flows.push_back({flows.text_at(0), flows.text_at(1), flows.real_at(2)});
    }
    return std::optional(std::move(record));
}

Status PlacementStore::save(const PlacementRecord& placement) const {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(db_->execute("DELETE FROM placement; DELETE FROM holders; DELETE FROM flows;"));
    {
        TRY(Statement model, db_->prepare("INSERT INTO placement VALUES(1, ?)"));
        TRY_VOID(model.text(placement.model).run());
        std::int64_t seq = 0;
        TRY(Statement holder, db_->prepare("INSERT INTO holders VALUES(?, ?, ?, ?, ?)"));
        for (const PlacementRecord::Holder& one : placement.holders) {
            TRY_VOID(holder.integer(++seq)
                         .text(one.worker)
                         .integer(one.begin)
                         .integer(one.end)
                         .integer(one.memory_bytes)
                         .run());
        }
        TRY(Statement flow, db_->prepare("INSERT INTO flows VALUES(?, ?, ?, ?)"));
        for (const PlacementRecord::Flow& one : placement.flows) {
            flow.integer(++seq).text(one.from).text(one.to).real(one.tokens_per_s);
            TRY_VOID(flow.run());
        }
    }
    return transaction.commit();
}

Result<std::vector<DrainRecord>> PlacementStore::load_drains() const {
    TRY(Statement drains, db_->prepare("SELECT worker, remove FROM drains ORDER BY worker"));
    std::vector<DrainRecord> records;
    while (true) {
        TRY(const bool row, drains.step());
        if (!row) return records;
        records.push_back({drains.text_at(0), drains.integer_at(1) != 0});
    }
}

Status PlacementStore::save_drains(const std::vector<DrainRecord>& drains) const {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(db_->execute("DELETE FROM drains"));
    {
        TRY(Statement insert, db_->prepare("INSERT INTO drains VALUES(?, ?)"));
        for (const DrainRecord& one : drains) {
            TRY_VOID(insert.text(one.worker).integer(one.remove ? 1 : 0).run());
        }
    }
    return transaction.commit();
}

}  // namespace helix::store
