#include "store/job_store.h"

#include <unistd.h>

#include <array>
#include <span>
#include <string>

#include "base/hex.h"
#include "store/schema.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr std::int64_t kJobsApplicationId = 0x486c6978;  // "Hlix", in the file's header
constexpr std::int64_t kSchemaVersion = 2;

// results is a table of its own so that it only ever grows: the primary key is the promise that a
// line has one result. seq gives lists their order; ids are what users see.
constexpr const char* kFirstTables = R"(
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
    hash BLOB NOT NULL,  -- ValueHash of file, piece, data
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
    "offset" INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY(batch, line),
    UNIQUE(batch, custom_id)) WITHOUT ROWID;
CREATE TABLE results(
    batch INTEGER NOT NULL,
    line INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    text TEXT NOT NULL,
    hash BLOB NOT NULL,  -- ValueHash of batch, line, outcome, text
    PRIMARY KEY(batch, line),
    FOREIGN KEY(batch, line) REFERENCES lines(batch, line) ON DELETE CASCADE);
)";

// Which lines without a result are under way, and how many processes died while each of them was.
constexpr const char* kRunsTable = R"(
CREATE TABLE runs(
    batch INTEGER NOT NULL,
    line INTEGER NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0,
    under_way INTEGER NOT NULL,
    PRIMARY KEY(batch, line),
    FOREIGN KEY(batch, line) REFERENCES lines(batch, line) ON DELETE CASCADE) WITHOUT ROWID;
)";

// Version 2: checksums of contents.
constexpr const char* kAddHashes = R"(
ALTER TABLE pieces ADD COLUMN hash BLOB;
UPDATE pieces SET hash=helix_hash(file, piece, data);
ALTER TABLE results ADD COLUMN hash BLOB;
UPDATE results SET hash=helix_hash(batch, line, outcome, text);
)";

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

Result<std::unique_ptr<JobStore>> JobStore::open(const Place& place) {
    TRY(auto database, Database::open(place, "helix.db"));
    std::unique_ptr<JobStore> store(new JobStore(std::move(database)));
    const std::string tables = std::string(kFirstTables) + kRunsTable;
    const std::string second = std::string(kAddHashes) + kRunsTable;
    const std::array upgrades{second.c_str()};
    TRY_VOID(prepare_schema(*store->db_,
                            {kJobsApplicationId, kSchemaVersion, tables.c_str(), upgrades}));
    // Lines that are still under way were so when the last process that had the file died.
    TRY(Transaction transaction, Transaction::begin(*store->db_));
    TRY_VOID(store->db_->execute("UPDATE runs SET deaths=deaths+1, under_way=0 WHERE under_way=1"));
    TRY_VOID(transaction.commit());
    return store;
}

// From the system's random source; 96 bits do not come twice.
Result<std::string> JobStore::new_id(std::string_view prefix) {
    std::array<std::byte, 12> random = {};
    if (::getentropy(random.data(), random.size()) != 0) {
        return Error{Errc::internal, "the system gave no random bytes"};
    }
    return std::string(prefix) + base::to_hex(random);
}

}  // namespace helix::store
