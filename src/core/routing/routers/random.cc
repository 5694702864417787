#include "base/random.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

// RandomRouter draws each hop evenly from all links that lead on, whatever the plan says.
class RandomRouter final : public HopRouter {
  public:
    explicit RandomRouter(RouterSetup setup)
        : HopRouter(std::move(setup.graph)), random_(setup.seed) {}

  private:
    std::int32_t choose(const RoutedRequest&, std::span<const std::int32_t> edges,
                        const WorkerLoads&) override {
        return edges[random_.below(edges.size())];
    }

    base::Random random_;
};

}  // namespace

RouterKind random_router() {
    return {"random", "draws every hop evenly from the links that lead on", true,
            router_factory<RandomRouter>()};
}

}  // namespace helix::core
