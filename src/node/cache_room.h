#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "node/tensor_cache.h"

namespace helix::node {

// How much a cache may hold.
struct CacheLimit {
    // Of all its tensors; nothing: as many as leave a tenth of the disk free, or kMostLeftFreeBytes
    // where that is less.
    std::optional<std::uint64_t> bytes;
};
inline constexpr std::uint64_t kMostLeftFreeBytes = 10'000'000'000;

struct DiskSpace {
    std::uint64_t bytes = 0;
    std::uint64_t free_bytes = 0;  // that this user may still write
};
using AskDisk = std::function<base::Result<DiskSpace>(const std::filesystem::path& folder)>;
// Of the disk on which the folder lies.
base::Result<DiskSpace> disk_space(const std::filesystem::path& folder);

// Keeps a cache within its limit: before a tensor is kept, others are removed, first those that
// nobody used for longest, and never one of a model that a process uses. Several processes may do
// so in one folder; between two looks at it each knows only what it keeps itself. For one thread.
class CacheRoom {
  public:
    explicit CacheRoom(TensorCache cache, CacheLimit limit = {}, AskDisk disk = &disk_space)
        : cache_(std::move(cache)), limit_(limit), disk_(std::move(disk)) {}

    // Makes room for a tensor that is kept next. Error too_large: what may be removed is not enough
    // for that, and nothing was; it says what is in use.
    base::Status make(std::uint64_t bytes);

  private:
    base::Result<std::uint64_t> excess(std::uint64_t more);
    base::Status remove(std::uint64_t too_much);
    std::uint64_t count();
    std::uint64_t slack() const;

    TensorCache cache_;
    CacheLimit limit_;
    AskDisk disk_;
    std::optional<std::uint64_t> counted_;  // in the folder when it was last looked at
    std::uint64_t kept_ = 0;                // since
};

// A model of which there is something in a cache.
struct ReceivedModel {
    std::string hash;
    std::string name;
    std::uint64_t bytes = 0;        // that are there
    std::uint64_t model_bytes = 0;  // of the whole model's tensors
    bool in_use = false;            // by a process that runs
};
// Those whose manifest can be read.
std::vector<ReceivedModel> received_models(const TensorCache& cache);
// Removes all that belongs to no model in use. Returns how many bytes of tensors that frees.
base::Result<std::uint64_t> remove_unused(const TensorCache& cache);

}  // namespace helix::node
