#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "core/protocol/remembered_placement.h"
#include "node/served_model.h"
#include "store/placement_store.h"

namespace helix::node {

// Keeps the placement in force, and who is drained, in the coordinator's state, so that the
// next coordinator takes them up. It writes on a thread of its own, so that no disk holds anybody
// up.
class PlacementKeeper {
  public:
    // Errors: another process has the folder, or the database is away (unavailable), or with
    // another coordinator (denied). A file that cannot be used is left as it is, with a warning
    // that names it; then nothing is remembered.
    static base::Result<std::unique_ptr<PlacementKeeper>> open(const store::Place& place,
                                                               const ServedModel& model);
    ~PlacementKeeper();  // what was to be kept is written first, if the database is there
    PlacementKeeper(const PlacementKeeper&) = delete;
    PlacementKeeper& operator=(const PlacementKeeper&) = delete;

    // The placement from before this start; none if nothing was kept, or if it was for another
    // model (which is logged).
    const std::optional<core::RememberedPlacement>& remembered() const { return remembered_; }
    // The drains from before this start, whatever model was served.
    const std::vector<core::RememberedDrain>& drains() const { return drains_; }
    // Keeps the placement. Of several in quick succession only the last is sure to be written.
    void keep(const core::RememberedPlacement& placement);
    void keep_drains(const std::vector<core::RememberedDrain>& drains);

  private:
    PlacementKeeper(std::unique_ptr<store::PlacementStore> store, std::string model);
    void read(std::int32_t n_layers);
    void read_drains();
    void work();
    template <typename Record>
    bool save(const char* what, std::optional<Record>& record,
              base::Status (store::PlacementStore::*write)(const Record&) const);

    std::unique_ptr<store::PlacementStore> store_;  // null: it cannot be used
    std::string model_;                             // fingerprint
    std::optional<core::RememberedPlacement> remembered_;
    std::vector<core::RememberedDrain> drains_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<store::PlacementRecord> to_write_;
    std::optional<std::vector<store::DrainRecord>> drains_to_write_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node
