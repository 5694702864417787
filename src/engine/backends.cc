#include "engine/backends.h"

#include <iterator>

#include <fmt/format.h>

#include "engine/cpu/cpu_provider.h"
#include "engine/modelled/modelled_provider.h"
#include "engine/vulkan/vulkan_provider.h"

namespace helix::engine {
namespace {

constexpr BackendKind kBackends[] = {
    {"cpu", "", CpuProvider::create},
    {"vulkan", ": a GPU", VulkanProvider::create},
    {"modelled", ": real protocol, modelled time", ModelledProvider::create},
};

}  // namespace

std::span<const BackendKind> backend_kinds() {
    return kBackends;
}

std::string backend_kinds_help() {
    std::string help;
    for (const BackendKind& kind : kBackends) {
        if (!help.empty()) help += &kind == std::end(kBackends) - 1 ? ", or " : ", ";
        help += std::string(kind.name) + kind.help;
    }
    return help;
}

base::Result<std::shared_ptr<BackendProvider>> make_backend_provider(
    std::string_view kind, const BackendOptions& options) {
    std::string names;
    for (const BackendKind& known : kBackends) {
        if (known.name == kind) return known.make(options);
        names += (names.empty() ? "neither " : " nor ") + std::string(known.name);
    }
    return base::invalid(fmt::format("--backend: '{}' is {}", kind, names));
}

}  // namespace helix::engine
