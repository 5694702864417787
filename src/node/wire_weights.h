#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/held_tensors.h"
#include "model/manifest.h"
#include "model/weight_source.h"
#include "node/cache_room.h"
#include "node/kept_model.h"
#include "node/tensor_cache.h"

namespace helix::node {

// The served model's weights, tensor by tensor from the cache on disk, else over the wire, each
// checked against the manifest's hash. What arrives is kept in the cache, where the next start, and
// other workers that ask, find it. Used on the engine's thread.
class WireWeights final : public model::WeightSource {
  public:
    // `through`, whose fetcher brings them, must outlive this. With an empty cache_dir, or one that
    // cannot be written, tensors are kept in memory while they are used, and so are those for which
    // the cache has no room.
    static base::Result<std::unique_ptr<WireWeights>> open(KeptModel& through,
                                                           const base::Hash128& model_hash,
                                                           const std::filesystem::path& cache_dir,
                                                           const CacheLimit& limit = {});
    ~WireWeights() override;

    const model::GgufFile& file() const override { return *file_; }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    // Lets go of a tensor after its last use; without a cache it is fetched again when it is asked
    // for again.
    void release(std::string_view name) override;

  private:
    WireWeights(KeptModel& through, const TensorCache& cache, const CacheLimit& limit);
    void use_model();
    void offer_cached();
    bool keep(const model::TensorDigest& tensor, std::span<const std::byte> bytes);
    base::Result<model::ModelManifest> fetch_manifest(const base::Hash128& hash);
    base::Result<std::vector<std::byte>> read_tensor(std::size_t index);
    base::Result<std::vector<std::byte>> fetch_tensor(std::size_t index);
    void on_ready(std::size_t index, wire::TensorSource source, const std::string& from, bool kept);
    void report_progress(const std::string& name, std::uint64_t bytes);

    KeptModel& through_;
    TensorCache cache_;
    CacheRoom room_;
    std::unique_ptr<base::FileLock> in_use_;  // of the model, in the cache
    bool said_full_ = false;
    model::ModelManifest manifest_;
    std::shared_ptr<const model::GgufFile> file_;
    std::map<std::string, std::size_t, std::less<>> index_;
    model::HeldTensors held_;
    std::uint64_t received_bytes_ = 0;
    base::TimePoint last_progress_;
};

}  // namespace helix::node
