#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/held_tensors.h"
#include "model/manifest.h"
#include "model/weight_source.h"
#include "node/weight_fetcher.h"

namespace helix::node {

// ~/.cache/helix, or what XDG_CACHE_HOME says; empty when there is no home.
std::filesystem::path default_cache_dir();

// The served model's weights, tensor by tensor over the wire, each checked against the manifest's
// hash and kept on disk under CACHE/<model hash>/, where the next start finds them. Used on the
// engine's thread.
class WireWeights final : public model::WeightSource {
  public:
    // fetcher must outlive this. With an empty cache_dir, or one that cannot be written, tensors
    // are kept in memory while they are used.
    static base::Result<std::unique_ptr<WireWeights>> open(WeightFetcher& fetcher,
                                                           const base::Hash128& model_hash,
                                                           const std::filesystem::path& cache_dir);
    ~WireWeights() override;

    const model::GgufFile& file() const override { return *file_; }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override;
    // Lets go of a tensor after its last use; without a cache it is fetched again when it is asked
    // for again.
    void release(std::string_view name) override;

  private:
    explicit WireWeights(WeightFetcher& fetcher);
    base::Result<model::ModelManifest> read_cached_manifest(const base::Hash128& hash) const;
    base::Result<model::ModelManifest> fetch_manifest(const base::Hash128& hash);
    void keep_manifest(const model::ModelManifest& manifest) const;
    base::Result<std::vector<std::byte>> read_cached_tensor(std::size_t index);
    base::Result<std::vector<std::byte>> fetch_tensor(std::size_t index);
    std::string path_of(std::size_t index) const;  // in the cache
    void report_progress(const std::string& name, std::uint64_t bytes);

    WeightFetcher& fetcher_;
    std::filesystem::path dir_;  // of this model; empty = no cache
    model::ModelManifest manifest_;
    std::shared_ptr<const model::GgufFile> file_;
    std::map<std::string, std::size_t, std::less<>> index_;
    model::HeldTensors held_;
    std::uint64_t received_bytes_ = 0;
    base::TimePoint last_progress_;
};

// The manifest as it goes over the wire, without the header itself.
wire::Manifest to_wire(const model::ModelManifest& manifest);

}  // namespace helix::node
