#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"

namespace helix::spec {

// What was measured of one model on one type of machine; ProfileTables reads it back.
struct MeasuredTables {
    ModelSpec model;
    std::string type;
    using Curve = std::vector<std::pair<std::int32_t, double>>;  // (tokens, seconds of one layer)
    Curve prompt_s;  // tokens strictly rising from 1 or more; [0] = 0 is added
    Curve decode_s;
    struct Limit {
        std::int64_t kv_tokens_per_layer = 0;
        std::int32_t prompt_max_requests = 0;
        std::int32_t prompt_max_tokens = 0;
        std::int32_t decode_max_tokens = 0;
        std::int64_t decode_max_context = 0;
    };
    std::vector<Limit> limits;  // [j - 1] of a machine with j layers, up to the most it may hold
    std::int32_t block_size = 16;
};

// Writes directory/models.json, <model>_limits.csv and <model>_<type>_{prompt,decode}_time.csv.
// What the folder has of other models and types stays; the type's own tables are replaced. Error
// invalid: a name that cannot be part of a file's name, or a folder that knows the model with
// another number of layers.
base::Status write_profile(const std::string& directory, const MeasuredTables& tables);

}  // namespace helix::spec
