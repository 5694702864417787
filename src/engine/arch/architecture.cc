#include "engine/arch/architecture.h"

#include <fmt/format.h>

#include "model/arch/decoder.h"

namespace helix::engine {

base::Result<std::unique_ptr<Architecture>> make_architecture(const model::ModelConfig& config) {
    // What their traits say is in the config, and all of it is among the blocks.
    if (model::find_traits(config.architecture) != nullptr) return make_decoder(config);
    return base::invalid(fmt::format("architecture \"{}\" cannot be run", config.architecture));
}

}  // namespace helix::engine
