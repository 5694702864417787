#include "spec/cluster_spec.h"

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

}  // namespace helix::spec
