#pragma once

#include <memory>

#include "api/model_file.h"
#include "node/served_model.h"

namespace helix::node {

// What is served, as one GGUF file that others can pull; null for a model without weights. The hash
// is the model's.
std::shared_ptr<const api::ModelFile> served_file(const ServedModel& model);

}  // namespace helix::node
