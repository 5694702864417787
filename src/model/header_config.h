#pragma once

#include "base/result.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace helix::model {

// What the header of a model's file says of it, for those who have no tensors: rope_factors are
// left out where a tensor has them.
base::Result<ModelConfig> read_header_config(const GgufFile& file);

}  // namespace helix::model
