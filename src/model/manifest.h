#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "model/gguf.h"
#include "model/weight_source.h"

// What identifies a model's content: two files with the same model hash hold the same header and
// weights. A worker that has the manifest can check each tensor that it receives over the wire.

namespace helix::model {

struct TensorDigest {
    std::string name;
    std::uint64_t bytes = 0;
    base::Hash128 hash;
    bool operator==(const TensorDigest&) const = default;
};

struct ModelManifest {
    std::vector<std::byte> header;      // GgufFile::header()
    std::vector<TensorDigest> tensors;  // in the file's order
    base::Hash128 model_hash;           // of the header's hash and the tensors' hashes, in order
};

// Reads the whole file once, on several threads (0: one per core, at most four).
base::Result<ModelManifest> build_manifest(const GgufFile& file, unsigned threads = 0);
// The same for a source that any thread may use; releases the tensors.
base::Result<ModelManifest> build_manifest(WeightSource& source, unsigned threads = 0);
base::Result<base::Hash128> hash_model_file(const std::string& path);
// Sets model_hash to what follows from the others.
void set_model_hash(ModelManifest& manifest);
// Checks that the weights are the model with this hash; the error says what differs.
base::Status check_model(WeightSource& source, const base::Hash128& expected);
// The same where the manifest of the weights is there.
base::Status check_model_hash(const WeightSource& source, const ModelManifest& manifest,
                              const base::Hash128& expected);
// The same for a GGUF file; the error may also say why it cannot be read.
base::Status check_model_file(const std::string& path, const base::Hash128& expected);
// Checks a manifest that came from elsewhere: that the header parses and lists exactly these
// tensors with these sizes, and that the model hash fits. Returns the header as a file without
// data.
base::Result<std::shared_ptr<const GgufFile>> open_manifest(const ModelManifest& manifest);
// Checks that the bytes are this tensor's.
base::Status check_tensor(const TensorDigest& expected, std::span<const std::byte> bytes);

}  // namespace helix::model
