#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/time.h"
#include "model/manifest.h"

namespace helix::model {

// Digests of the tensors of model files that were read before, in a folder for their owner only, so
// that a program that starts again need not read a large file whole. A file is taken for the one
// that was read while its stamp is the same; the header is compared in any case. Made tensors
// (a folder of safetensors) are always read. Any number of programs may use one folder. For any
// thread.
class DigestCache {
  public:
    // Keeps nothing.
    DigestCache() = default;
    // The folder is made when there is something to keep. One that cannot be written keeps nothing.
    // A file that was written less than settled_after ago may be written again at the same tick of
    // its clock, and is not kept.
    explicit DigestCache(std::filesystem::path folder,
                         base::Duration settled_after = base::from_seconds(2))
        : folder_(std::move(folder)), settled_after_(settled_after) {}

    // As build_manifest() gives it.
    base::Result<ModelManifest> manifest(WeightSource& source) const;
    // As check_model() does it.
    base::Status check(WeightSource& source, const base::Hash128& expected) const;

  private:
    std::filesystem::path path_of(const WeightSource& source,
                                  const std::vector<base::FileStamp>& stamps) const;
    std::optional<ModelManifest> find(const WeightSource& source,
                                      const std::vector<base::FileStamp>& stamps) const;
    void keep(const WeightSource& source, const std::vector<base::FileStamp>& stamps,
              const ModelManifest& manifest) const;
    void make_room() const;

    std::filesystem::path folder_;  // empty = none
    base::Duration settled_after_;
};

}  // namespace helix::model
