#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/database.h"

namespace helix::store {

// Which worker held which layers, in words that mean the same to the next coordinator.
struct PlacementRecord {
    struct Holder {
        std::string worker;
        std::int64_t begin = 0;  // layers [begin, end)
        std::int64_t end = 0;
        std::int64_t memory_bytes = 0;
        bool operator==(const Holder&) const = default;
    };
    struct Flow {
        std::string from;  // "" = the coordinator
        std::string to;
        double tokens_per_s = 0;
        bool operator==(const Flow&) const = default;
    };
    std::string model;  // a fingerprint: what it is a placement of
    std::vector<Holder> holders;
    std::vector<Flow> flows;
    bool operator==(const PlacementRecord&) const = default;
};

// A worker that is kept out of placements.
struct DrainRecord {
    std::string worker;
    bool remove = false;
    bool operator==(const DrainRecord&) const = default;
};

// The last placement that was in force, and who is drained, in a database of its own, so that no
// damage to it touches files and batches. Promises: what save() has returned as done is kept
// through any crash, whole; a file that cannot be understood is left as it is. One thread at a
// time.
class PlacementStore {
  public:
    // Opens placement.db in the folder, or what is shared; all is made when it is not there. Errors
    // name the file or the server: another process has it, or it is away (unavailable), another
    // coordinator has taken over (denied), or it is damaged, none of ours, or of a newer version
    // (invalid).
    static base::Result<std::unique_ptr<PlacementStore>> open(const Place& place);

    // The last placement that was saved; none if there was none yet.
    base::Result<std::optional<PlacementRecord>> load() const;
    // In place of what was there.
    base::Status save(const PlacementRecord& placement) const;

    // By name; of whatever model is served.
    base::Result<std::vector<DrainRecord>> load_drains() const;
    // In place of what was there; each worker once.
    base::Status save_drains(const std::vector<DrainRecord>& drains) const;

    const std::string& path() const { return db_->path(); }

  private:
    explicit PlacementStore(std::unique_ptr<Database> database) : db_(std::move(database)) {}
    std::unique_ptr<Database> db_;
};

}  // namespace helix::store
