#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/gguf.h"

namespace helix::model {

// Where a worker's weights come from: a local file, or tensors received over the wire.
class WeightSource {
  public:
    virtual ~WeightSource() = default;
    // Metadata and tensor list. The file may have no data.
    virtual const GgufFile& file() const = 0;
    // The tensor's bytes, whose hash was checked if they came over the wire. They are valid while
    // the source lives, or until each call with this name is followed by a release(). May block for
    // a transfer.
    virtual base::Result<std::span<const std::byte>> tensor(std::string_view name) = 0;
    // Fills `to` with a part of a tensor, which must lie within it, without reading the whole.
    // Returns nullopt where that is impossible because the tensor is made, or comes over the wire.
    // For any thread if tensor() is.
    virtual std::optional<base::Status> read_part(std::string_view /*name*/,
                                                  std::uint64_t /*offset*/,
                                                  std::span<std::byte> /*to*/) {
        return std::nullopt;
    }
    // Ends one use of a tensor's bytes: a source that made them may let them go after the last.
    // They can be asked for again.
    virtual void release(std::string_view /*name*/) {}
    // Of all files that tensors are read from, as they are now. Error not_found: tensors are made,
    // or come from elsewhere.
    virtual base::Result<std::vector<base::FileStamp>> stamps() const {
        return base::Error{base::Errc::not_found, "the tensors are in no file"};
    }
};

struct WeightOptions {
    // The type that matrices of a folder of safetensors get; "" leaves them as they are. A GGUF
    // file has types of its own, so for one it must be "".
    std::string quantize;
};

// Opens a GGUF file, the first of a model in several files, or a folder of safetensors. Errors name
// the path.
base::Result<std::shared_ptr<WeightSource>> open_weights(const std::string& path,
                                                         const WeightOptions& options = {});

}  // namespace helix::model
