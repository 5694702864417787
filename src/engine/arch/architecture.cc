#include "engine/arch/architecture.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::engine {

base::Result<std::unique_ptr<Architecture>> make_architecture(const model::ModelConfig& config) {
    constexpr std::string_view kDecoders[] = {"llama", "qwen2", "qwen3", "qwen3moe"};
    for (const std::string_view name : kDecoders) {
        if (config.architecture == name) return make_decoder(config);
    }
    return base::invalid(fmt::format("architecture \"{}\" cannot be run; known: {}",
                                     config.architecture, fmt::join(kDecoders, ", ")));
}

}  // namespace helix::engine
