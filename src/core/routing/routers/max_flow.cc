#include <utility>
#include <vector>

#include "base/check.h"
#include "core/routing/carried_rows.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

// MaxFlowRouter is interleaved weighted round robin over the out-edges of every node, weight =
// planned flow: it takes the edge that would carry the least rows for its flow. Over many requests
// the share of an edge among its node's edges goes to its share of the flow when every stage fits.
// What counts as carried is CarriedRows'.
class MaxFlowRouter final : public HopRouter {
  public:
    explicit MaxFlowRouter(const RouterSetup& setup)
        : HopRouter(setup.graph.planned()), carried_(graph().edges().size()) {
        for (const PipelineEdge& edge : graph().edges()) {
            of_one_row_.push_back(1 / edge.flow_tokens_per_s);
        }
    }

    void on_sent(const Path& path, std::int64_t rows) override {
        for (const std::int32_t e : path) {
            const auto way = static_cast<std::size_t>(e);
            const double flow = graph().edge(e).flow_tokens_per_s;
            carried_.add(way, rows == 1 ? of_one_row_[way] : static_cast<double>(rows) / flow);
        }
    }

  private:
    std::int32_t choose(const RoutedRequest& request, std::span<const std::int32_t> edges,
                        const WorkerLoads&) override {
        CHECK(request.rows > 0);
        carried_.count_for(request);
        const auto weight = static_cast<double>(request.rows);
        std::int32_t best = -1;
        double best_cost = 0;
        for (const std::int32_t e : edges) {
            const double more = weight / graph().edge(e).flow_tokens_per_s;
            const double cost = carried_.counted(static_cast<std::size_t>(e)) + more;
            // Ties, up to rounding, go to the first edge: no bursts, equal on every machine.
            if (best < 0 || cost < best_cost - kCostTie * more) {
                best = e;
                best_cost = cost;
            }
        }
        return best;
    }

    CarriedRows carried_;             // by edge
    std::vector<double> of_one_row_;  // by edge: what one row adds
};

}  // namespace

RouterKind max_flow_router() {
    return {"helix", "shares every node's requests out by the planned flow (max-flow IWRR)", false,
            router_factory<MaxFlowRouter>()};
}

}  // namespace helix::core
