#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"

namespace helix::model {

// Where a worker's weights come from: a local file, or tensors received over the wire.
class WeightSource {
  public:
    virtual ~WeightSource() = default;
    // Metadata and tensor list; data() of this file may be empty.
    virtual const GgufFile& file() const = 0;
    // The tensor's bytes, hash-checked when they came over the wire; valid while the source lives.
    // May block for a transfer.
    virtual base::Result<std::span<const std::byte>> tensor(std::string_view name) = 0;
};

}  // namespace helix::model
