#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/result.h"
#include "model/digest_cache.h"
#include "model/manifest.h"

namespace helix::node {

// ~/.cache/helix, or what XDG_CACHE_HOME says; empty when there is no home.
std::filesystem::path default_cache_dir();

// Digests of model files that were read before, beside what was received; an empty folder keeps
// nothing.
model::DigestCache digests_in(const std::filesystem::path& cache_dir);

// What was received of models, on disk. Tensors lie under their own content's hash,
// DIR/tensors/<its first two digits>/<hash>, so models that have a tensor in common have one file
// for it; what they are part of lies under the model's, DIR/manifests/<hash>/. Any number of
// workers may use one folder. What is removed, and when, is cache_room.h's. For any thread.
class TensorCache {
  public:
    // A file of a tensor, or of what arrived of one.
    struct File {
        std::filesystem::path path;
        std::uint64_t bytes = 0;
        std::filesystem::file_time_type used;  // last, by any process
    };

    // Without a cache, and with one that cannot be written, nothing is kept and nothing found.
    TensorCache() = default;
    explicit TensorCache(std::filesystem::path dir);
    bool present() const { return !dir_.empty(); }

    // Whether a file of as many bytes lies there, without a look at the content.
    bool has(const model::TensorDigest& tensor) const;
    // The tensor, whose content is what it should be. Error not_found: it is not here. Another
    // error: it is damaged.
    base::Result<std::vector<std::byte>> read(const model::TensorDigest& tensor) const;
    // Fills `to` with a part of a tensor of as many bytes, without a look at the content.
    base::Status read_part(const base::Hash128& hash, std::uint64_t bytes, std::uint64_t offset,
                           std::span<std::byte> to) const;
    base::Status keep(const base::Hash128& hash, std::span<const std::byte> bytes) const;

    base::Result<model::ModelManifest> read_manifest(const base::Hash128& model_hash) const;
    base::Status keep_manifest(const model::ModelManifest& manifest) const;

    // While this is held the model counts as in use, for all processes.
    base::Result<std::unique_ptr<base::FileLock>> use(const base::Hash128& model_hash) const;
    // All of tensors that there is, and the models whose manifests there are.
    std::vector<File> files() const;
    std::vector<base::Hash128> models() const;

    const std::filesystem::path& folder() const { return dir_; }
    // Where a tensor lies, the folder of a model's manifest, and the lock of those who use it.
    std::filesystem::path path_of(const base::Hash128& hash) const;
    std::filesystem::path manifest_folder(const base::Hash128& model_hash) const;
    std::filesystem::path lock_of(const base::Hash128& model_hash) const;

  private:
    std::filesystem::path dir_;  // empty = no cache
};

}  // namespace helix::node
