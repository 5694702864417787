#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/database.h"

namespace helix::store {

// An answer of /v1/responses, and all that was said up to its end.
struct ResponseRecord {
    std::string id;
    std::string body;   // the JSON that its client got
    std::string items;  // a JSON array: the items of the whole conversation, this answer's included
};

// Answers that later requests may go on from, in a database of their own. Promises: what save()
// has returned as done is kept through any crash, whole, until it is removed or is the oldest when
// there is too much. One thread at a time.
class ResponseStore {
  public:
    // Opens responses.db in the folder, or what is shared; all is made when it is not there.
    // max_bytes: of all records. Errors: another process has it, or it is away (unavailable),
    // another coordinator has taken over (denied), it is none of ours, or it is of a newer version
    // (invalid).
    static base::Result<std::unique_ptr<ResponseStore>> open(const Place& place,
                                                             std::int64_t max_bytes);

    // In place of a record with this id, if there is one.
    base::Status save(const ResponseRecord& record) const;
    // Error not_found names the id, as of the next one.
    base::Result<ResponseRecord> find(std::string_view id) const;
    base::Status remove(std::string_view id) const;

  private:
    ResponseStore(std::unique_ptr<Database> database, std::int64_t max_bytes)
        : db_(std::move(database)), max_bytes_(max_bytes) {}
    std::unique_ptr<Database> db_;
    std::int64_t max_bytes_;
};

}  // namespace helix::store
