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
    // folder: as of store::ResponseStore::open(), whose errors it has.
    static base::Result<std::unique_ptr<KeptResponses>> open(const std::string& folder);

    ~KeptResponses() { flush(); }
    KeptResponses(const KeptResponses&) = delete;
    KeptResponses& operator=(const KeptResponses&) = delete;

    // Any thread; does not wait for a disk. What was kept is written by the next flush().
    void keep(store::ResponseRecord record);
    // These wait for a disk, on any thread but the HTTP server's.
    void flush();
    base::Result<store::ResponseRecord> find(std::string_view id);
    base::Status remove(std::string_view id);

  private:
    explicit KeptResponses(std::unique_ptr<store::ResponseStore> store)
        : store_(std::move(store)) {}

    std::mutex store_mutex_;  // taken before the other one
    std::unique_ptr<store::ResponseStore> store_;
    std::mutex mutex_;
    // What is not on disk yet, by id.
    std::map<std::string, std::shared_ptr<const store::ResponseRecord>, std::less<>> unsaved_;
};

}  // namespace helix::api
