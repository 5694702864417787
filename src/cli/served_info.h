#pragma once

#include <cstdint>
#include <string>

#include "api/model_registry.h"
#include "base/hash.h"
#include "model/info.h"
#include "spec/model_spec.h"
#include "spec/pooling.h"

// What the API says of the model that a server or a gateway offers.

namespace helix::cli {

struct ServedTraits {
    std::int32_t hidden = 0;
    spec::Pooling pooling = spec::Pooling::mean;
    bool ranks = false;
    base::Hash128 content;
    std::string kv_type = {};
};

// All but its names and its age. file may be of a header alone.
api::ModelInfo info_of(const model::ModelInfo& file, const spec::ModelSpec& model,
                       const ServedTraits& traits);

// Log lines about what it can do besides chatting.
void tell_pooling(const api::ModelInfo& model);

}  // namespace helix::cli
