#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "core/routing/carried_rows.h"
#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

// SeparateRouter deals requests to whole pipelines that share no worker, by what each can carry.
// From any plan it takes the widest pipeline, then the widest of the workers that are left, and so
// on; the remaining workers stay idle. On a placement made of separate pipelines this is what the
// max-flow router does.
class SeparateRouter final : public RequestRouter {
  public:
    explicit SeparateRouter(const RouterSetup& setup) : RequestRouter(setup.graph.planned()) {
        std::vector<bool> taken(graph().nodes().size(), false);
        while (add_widest(taken)) {
        }
        // The lanes are in the order of the plan's edges, so that ties fall as they do elsewhere.
        std::sort(lanes_.begin(), lanes_.end(),
                  [](const Lane& a, const Lane& b) { return a.path.front() < b.path.front(); });
        carried_ = CarriedRows(lanes_.size());
    }

    Path route(const RoutedRequest& request, const StageFits& fits, const WorkerLoads&) override {
        carried_.count_for(request);
        const auto weight = static_cast<double>(request.rows);
        const Lane* best = nullptr;
        double best_cost = 0;
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            const Lane& lane = lanes_[i];
            if (!holds(lane, fits)) continue;
            const double more = weight / lane.tokens_per_s;
            const double cost = carried_.counted(i) + more;
            if (best == nullptr || cost < best_cost - kCostTie * more) {
                best = &lane;
                best_cost = cost;
            }
        }
        return best == nullptr ? Path{} : best->path;
    }

    bool can_route(const StageFits& fits) const override {
        return std::any_of(lanes_.begin(), lanes_.end(),
                           [&](const Lane& lane) { return holds(lane, fits); });
    }

    void on_sent(const Path& path, std::int64_t rows) override {
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            if (!path.empty() && lanes_[i].path.front() == path.front()) {
                carried_.add(i, static_cast<double>(rows) / lanes_[i].tokens_per_s);
            }
        }
    }

  private:
    struct Lane {
        Path path;
        Pipeline pipeline;
        double tokens_per_s = 0;  // the least flow along it
    };

    static bool holds(const Lane& lane, const StageFits& fits) {
        return std::all_of(lane.pipeline.begin(), lane.pipeline.end(),
                           [&](const Stage& stage) { return fits(stage.worker, stage.layers); });
    }

    // Adds the path whose least flow is largest, through workers that are not taken; false if there
    // is none.
    bool add_widest(std::vector<bool>& taken) {
        std::vector<double> width(taken.size(), 0);          // from a node to the end
        std::vector<std::int32_t> onward(taken.size(), -1);  // edge
        const auto widest = [&](std::int32_t from) {
            std::pair<double, std::int32_t> best = {0, -1};
            for (const std::int32_t e : graph().out(from)) {
                const PipelineEdge& edge = graph().edge(e);
                double through = edge.flow_tokens_per_s;
                if (edge.to != spec::kCoordinator) {
                    const auto to = static_cast<std::size_t>(edge.to);
                    through = taken[to] ? 0 : std::min(through, width[to]);
                }
                if (through > best.first) best = {through, e};
            }
            return best;
        };
        for (const std::int32_t node : graph().last_first()) {
            const auto n = static_cast<std::size_t>(node);
            std::tie(width[n], onward[n]) = widest(node);
        }
        auto [tokens_per_s, next] = widest(spec::kCoordinator);
        if (tokens_per_s <= kMinFlow) return false;
        Lane lane;
        lane.tokens_per_s = tokens_per_s;
        while (true) {
            lane.path.push_back(next);
            const std::int32_t node = graph().edge(next).to;
            if (node == spec::kCoordinator) break;
            taken[static_cast<std::size_t>(node)] = true;
            next = onward[static_cast<std::size_t>(node)];
        }
        lane.pipeline = graph().pipeline(lane.path);
        lanes_.push_back(std::move(lane));
        return true;
    }

    std::vector<Lane> lanes_;
    CarriedRows carried_;  // by lane
};

}  // namespace

RouterKind separate_router() {
    return {"separate", "deals requests to pipelines that share no worker, by what each carries",
            false, router_factory<SeparateRouter>()};
}

}  // namespace helix::core
