#include "spec/cluster_spec.h"

#include <algorithm>
#include <tuple>

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
    std::vector<const NodeSpec*> sorted(nodes.begin(), nodes.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const NodeSpec* a, const NodeSpec* b) {
        return std::tie(a->host, a->device) < std::tie(b->host, b->device);
    });
    std::int32_t at_once = 0;
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
