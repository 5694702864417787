#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/response_store.h"

namespace helix::api {

// The answers of /v1/responses that are kept. One is found from the moment on that its client may
// know its id, and is on disk a moment later.
class KeptResponses {
  public:
    // place: as of store::ResponseStore::open(), whose errors it has.
    static base::Result<std::unique_ptr<KeptResponses>> open(const store::Place& place);

    ~KeptResponses();  // what is not written by then is lost, with a word in the log
    KeptResponses(const KeptResponses&) = delete;
    KeptResponses& operator=(const KeptResponses&) = delete;

    // Any thread; does not wait for a disk. What was kept is written by the next flush().
    void keep(store::ResponseRecord record);
    // These wait for a disk, on any thread but the HTTP server's. False: the database is away, and
    // what is not written yet is kept for another flush().
    bool flush();
    base::Result<store::ResponseRecord> find(std::string_view id);
    base::Status remove(std::string_view id);

  private:
    explicit KeptResponses(std::unique_ptr<store::ResponseStore> store)
        : store_(std::move(store)) {}
    void forget(const std::string& id);

    std::mutex store_mutex_;  // taken before the other one
    std::unique_ptr<store::ResponseStore> store_;
    std::mutex mutex_;
    // What is not on disk yet, by id.
    std::map<std::string, std::shared_ptr<const store::ResponseRecord>, std::less<>> unsaved_;
    std::int64_t unsaved_bytes_ = 0;
};

}  // namespace helix::api
