#include <memory>
#include <utility>

#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

// The levels are of freeness over mean length, ((M - sum V) / B) / (sum V / B): the part of its own
// length by which every sequence at a worker can still grow. A worker with at least the first level
// has plenty; each further level is half of the one before.
constexpr double kPlenty = 0.5;
constexpr int kLevels = 3;

// FreestRouter is Llumnix' dispatch to where there is most room, for pipelines: among the ways all
// of whose stages have plenty the flow plan decides, as in max_flow.cc; if there is none, among
// those that have half as much, and so on.
class FreestRouter final : public RequestRouter {
  public:
    explicit FreestRouter(RouterSetup setup)
        : RequestRouter(setup.graph.planned()), by_flow_(max_flow_router().make(setup)) {}

    Path route(const RoutedRequest& request, const StageFits& fits,
               const WorkerLoads& loads) override {
        double least = kPlenty;
        for (int level = 0; level < kLevels; ++level, least /= 2) {
            const StageFits free = [&](WorkerId worker, LayerRange layers) {
                if (!fits(worker, layers)) return false;
                const WorkerLoad load = loads(worker);
                const auto total = static_cast<double>(load.total_pages);
                return total - load.kv_pages >= least * load.kv_pages;
            };
            Path path = by_flow_->route(request, free, loads);
            if (!path.empty()) return path;
        }
        return by_flow_->route(request, fits, loads);
    }
    void on_sent(const Path& path, std::int64_t rows) override { by_flow_->on_sent(path, rows); }

  private:
    std::unique_ptr<RequestRouter> by_flow_;  // over the same edges
};

}  // namespace

RouterKind freest_router() {
    return {"freest", "as helix, but keeps away from workers that are near full", false,
            router_factory<FreestRouter>()};
}

}  // namespace helix::core
