#include "spec/cluster_spec.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

namespace helix::spec {

const char* to_string(NodeRole role) {
    switch (role) {
        case NodeRole::both:
            return "both";
        case NodeRole::prefill:
            return "prefill";
        case NodeRole::decode:
            return "decode";
    }
    return "?";
}

std::optional<NodeRole> parse_role(std::string_view text) {
    for (const NodeRole role : {NodeRole::both, NodeRole::prefill, NodeRole::decode}) {
        if (text == to_string(role)) return role;
    }
    return std::nullopt;
}

std::int32_t computing_at_once(std::span<const NodeSpec* const> nodes) {
    constexpr double kRounding = 1e-9;
    std::vector<const NodeSpec*> sorted;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(sorted),
                 [](const NodeSpec* node) { return !node->host.empty(); });
    std::stable_sort(sorted.begin(), sorted.end(), [](const NodeSpec* a, const NodeSpec* b) {
        return std::tie(a->host, a->device) < std::tie(b->host, b->device);
    });
    // A node that names no host shares its processors with nobody.
    auto at_once = static_cast<std::int32_t>(nodes.size() - sorted.size());
    for (std::size_t first = 0; first < sorted.size();) {
        double core_shares = sorted[first]->core_share;
        std::size_t end = first + 1;
        for (; end < sorted.size() && share_processors(*sorted[first], *sorted[end]); ++end)
            core_shares += sorted[end]->core_share;
        const auto sharing = static_cast<std::int32_t>(end - first);
        const double undisturbed = static_cast<double>(sharing) / core_shares + kRounding;
        at_once += std::clamp(static_cast<std::int32_t>(undisturbed), 1, sharing);
        first = end;
    }
    return at_once;
}

}  // namespace helix::spec
