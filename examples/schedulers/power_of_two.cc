// A router in one file (docs/routers.md): of two links drawn at random it takes the one whose
// worker has the larger share of its KV memory free. Two choices are nearly as even as asking all
// workers, and stay good when what is known of them is old (Mitzenmacher 1996).

#include "base/random.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

class PowerOfTwoRouter final : public HopRouter {
  public:
    explicit PowerOfTwoRouter(RouterSetup setup)
        : HopRouter(std::move(setup.graph)), random_(setup.seed) {}

  private:
    // edges are the ways on from where the request is. None of them leads into a dead end.
    std::int32_t choose(const RoutedRequest& /*request*/, std::span<const std::int32_t> edges,
                        const WorkerLoads& loads) override {
        const std::int32_t a = edges[random_.below(edges.size())];
        const std::int32_t b = edges[random_.below(edges.size())];
        return used_share(b, loads) < used_share(a, loads) ? b : a;
    }

    double used_share(std::int32_t edge, const WorkerLoads& loads) const {
        const std::int32_t node = graph().edge(edge).to;
        if (node == spec::kCoordinator) return 0;  // the end
        const WorkerLoad load = loads(graph().nodes()[static_cast<std::size_t>(node)].worker);
        return load.kv_pages / static_cast<double>(load.total_pages);
    }

    base::Random random_;
};

}  // namespace

RouterKind power_of_two_router() {
    return {"power-of-two", "of two links drawn, the one whose worker has more KV memory free",
            true,  // links that the plan does not use will do, too
            router_factory<PowerOfTwoRouter>()};
}

}  // namespace helix::core
