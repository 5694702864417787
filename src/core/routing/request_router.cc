#include "core/routing/request_router.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace helix::core {

Path HopRouter::route(const RoutedRequest& request, const StageFits& fits,
                      const WorkerLoads& loads) {
    LookAhead look(graph(), fits);
    Path path;
    std::vector<std::int32_t> open;
    std::int32_t at = spec::kCoordinator;
    do {
        open.clear();
        for (const std::int32_t e : graph().out(at)) {
            if (look.open(e)) open.push_back(e);
        }
        if (open.empty()) {
            CHECK(at == spec::kCoordinator);  // look-ahead: no dead end is entered
            return {};
        }
        const std::int32_t chosen = choose(request, open, loads);
        CHECK(std::find(open.begin(), open.end(), chosen) != open.end());
        path.push_back(chosen);
        at = graph().edge(chosen).to;
    } while (at != spec::kCoordinator);
    return path;
}

}  // namespace helix::core
