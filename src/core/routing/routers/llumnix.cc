#include <limits>
#include <utility>

#include "core/routing/router_catalogue.h"
#include "core/routing/widest_path.h"

namespace helix::core {
namespace {

// LlumnixRouter dispatches as Llumnix is published: to the instance of greatest freeness. A
// pipeline is as free as its fullest worker (core/coordinator/freeness.h), and of pipelines that
// are equally free the one whose links were given first is taken.
class LlumnixRouter final : public RequestRouter {
  public:
    explicit LlumnixRouter(RouterSetup setup) : RequestRouter(setup.graph.planned()) {}

    bool wants_freeness() const override { return true; }
    Path route(const RoutedRequest&, const StageFits& fits, const WorkerLoads& loads) override {
        return widest_path(graph(),
                           [&](std::int32_t e) {
                               if (graph().edge(e).to == spec::kCoordinator) {
                                   return std::numeric_limits<double>::infinity();
                               }
                               const Stage stage = graph().stage(graph().edge(e));
                               if (!fits(stage.worker, stage.layers)) return -1.0;
                               return width_of(loads(stage.worker).freeness);
                           })
            .path;
    }
};

}  // namespace

RouterKind llumnix_router() {
    return {"llumnix", "takes the way whose fullest worker is the freest, as Llumnix dispatches",
            false, router_factory<LlumnixRouter>()};
}

}  // namespace helix::core
