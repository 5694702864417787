#include "core/routing/router_catalogue.h"

namespace helix::core {

const std::vector<RouterKind>& router_kinds() {
    static const std::vector<RouterKind> kinds = {
        max_flow_router(),        //
        swarm_router(),           //
        random_router(),          //
        shortest_queue_router(),  //
        separate_router(),        //
        freest_router(),          //
        llumnix_router(),         //
    };
    return kinds;
}

base::Result<RouterKind> find_router(const std::string& name) {
    std::string names;
    for (const RouterKind& kind : router_kinds()) {
        if (kind.name == name) return kind;
        names += (names.empty() ? "" : ", ") + kind.name;
    }
    return base::invalid("--scheduler: '" + name + "' is none of " + names);
}

std::string list_routers() {
    std::string text;
    for (const RouterKind& kind : router_kinds()) {
        text += (text.empty() ? "" : "\n") + kind.name + ": " + kind.description;
    }
    return text;
}

}  // namespace helix::core
