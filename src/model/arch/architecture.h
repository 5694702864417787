#pragma once

#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "model/model_config.h"

// A family of models: one file in this folder, and a row of the table in model_config.cc.

namespace helix::model {

struct Architecture {
    std::string_view name;  // general.architecture
    // Reads and checks the hyperparameters, and checks that every tensor the model needs is there
    // with the right shape, and none besides. Leaves out rope factors that come as a tensor.
    base::Result<ModelConfig> (*read)(const GgufFile& file);
};

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kQwen3Moe;

// The tensor of this name with exactly this shape. One-dimensional ones (norms, factors) are float.
base::Result<const TensorInfo*> expect_tensor(const GgufFile& file, std::string_view name,
                                              const std::vector<std::int64_t>& shape);
// The integer at key, within [low, high].
base::Result<std::int32_t> expect_int(const GgufFile& file, std::string_view key, std::int64_t low,
                                      std::int64_t high);
// The same; returns otherwise when the key is absent.
base::Result<std::int32_t> optional_int(const GgufFile& file, std::string_view key,
                                        std::int64_t low, std::int64_t high,
                                        std::int32_t otherwise);
// A finite number above zero; returns otherwise when the key is absent.
base::Result<float> optional_positive(const GgufFile& file, std::string_view key, float otherwise);

}  // namespace helix::model
