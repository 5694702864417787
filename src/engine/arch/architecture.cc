#include "engine/arch/architecture.h"

#include <fmt/format.h>

namespace helix::engine {

base::Result<std::unique_ptr<Architecture>> make_architecture(const model::ModelConfig& config) {
    if (config.architecture == "llama") return make_llama(config);
    return base::invalid(
        fmt::format("architecture \"{}\" cannot be run; known: llama", config.architecture));
}

}  // namespace helix::engine
