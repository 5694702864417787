#include <algorithm>
#include <limits>
#include <vector>

#include "base/random.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

// Each hop goes to the worker with the fewest rows waiting, drawn among equals. A worker's queue is
// what it last reported, and what was sent and came back through it since.
class ShortestQueueRouter final : public HopRouter {
  public:
    explicit ShortestQueueRouter(RouterSetup setup)
        : HopRouter(std::move(setup.graph)),
          random_(setup.seed),
          since_report_(graph().nodes().size(), 0) {}

    void on_sent(const Path& path, std::int64_t rows) override { add(path, rows); }
    void on_returned(const Path& path, std::int64_t rows, Duration) override { add(path, -rows); }
    void on_ended(const Path& path, std::int64_t rows) override { add(path, -rows); }
    void on_report(WorkerId worker, const WorkerReport&) override {
        const std::int32_t node = graph().node_of(worker);
        if (node >= 0) since_report_[static_cast<std::size_t>(node)] = 0;
    }

  private:
    void add(const Path& path, std::int64_t rows) {
        for (const std::int32_t e : path) {
            const std::int32_t node = graph().edge(e).to;
            if (node != spec::kCoordinator) since_report_[static_cast<std::size_t>(node)] += rows;
        }
    }

    std::int64_t queue(std::int32_t node, const WorkerLoads& loads) const {
        if (node == spec::kCoordinator) return 0;
        const auto n = static_cast<std::size_t>(node);
        const WorkerLoad load = loads(graph().nodes()[n].worker);
        return std::max<std::int64_t>(0, load.report->waiting_rows + since_report_[n]);
    }

    std::int32_t choose(const RoutedRequest&, std::span<const std::int32_t> edges,
                        const WorkerLoads& loads) override {
        std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
        shortest_.clear();
        for (const std::int32_t e : edges) {
            const std::int64_t rows = queue(graph().edge(e).to, loads);
            if (rows > shortest) continue;
            if (rows < shortest) shortest_.clear();
            shortest = rows;
            shortest_.push_back(e);
        }
        return shortest_[random_.below(shortest_.size())];
    }

    base::Random random_;
    std::vector<std::int64_t> since_report_;  // by node, rows
    std::vector<std::int32_t> shortest_;
};

}  // namespace

RouterKind shortest_queue_router() {
    return {"shortest-queue", "takes every hop to the worker with the fewest rows waiting", true,
            router_factory<ShortestQueueRouter>()};
}

}  // namespace helix::core
