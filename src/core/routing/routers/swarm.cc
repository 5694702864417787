#include <algorithm>
#include <vector>

#include "core/routing/router_catalogue.h"

namespace helix::core {
namespace {

constexpr double kFirstGuess_s = 0.05;
constexpr double kSwarmGain = 0.2;
constexpr double kLeastShare = 0.1;

// SwarmRouter is SWARM as the published simulator has it: every node deals requests to its links by
// priorities that grow by how long the link's node takes, so faster ones get more; no plan is used.
//
// The published simulator measures every hop. A coordinator sees whole rounds: when one takes
// longer or shorter than its hops were thought to take, all of them are scaled towards it, but none
// below a tenth of an even share. Rounds that share hops in different mixtures tell the hops apart.
// Prompts teach nothing: their time is mostly their length.
class SwarmRouter final : public HopRouter {
  public:
    explicit SwarmRouter(RouterSetup setup)
        : HopRouter(std::move(setup.graph)), links_(graph().edges().size()) {}

    void on_returned(const Path& path, std::int64_t rows, Duration took) override {
        if (rows != 1 || path.empty() || took.ns <= 0) return;
        double expected_s = 0;
        for (const std::int32_t e : path) expected_s += link(e).mean_s;
        const double ratio = std::clamp(took.seconds() / expected_s, 0.5, 2.0);
        const double least_s = kLeastShare * took.seconds() / static_cast<double>(path.size());
        for (const std::int32_t e : path) {
            link(e).mean_s = std::max(least_s, link(e).mean_s * (1 + kSwarmGain * (ratio - 1)));
        }
    }

  private:
    struct Link {
        double priority = kFirstGuess_s;
        double mean_s = kFirstGuess_s;
    };
    Link& link(std::int32_t e) { return links_[static_cast<std::size_t>(e)]; }

    std::int32_t choose(const RoutedRequest&, std::span<const std::int32_t> edges,
                        const WorkerLoads&) override {
        const std::int32_t best = *std::min_element(
            edges.begin(), edges.end(),
            [&](std::int32_t a, std::int32_t b) { return link(a).priority < link(b).priority; });
        link(best).priority += link(best).mean_s;
        return best;
    }

    std::vector<Link> links_;  // by edge
};

}  // namespace

RouterKind swarm_router() {
    return {"swarm", "deals requests to links by how fast they have been (SWARM)", true,
            router_factory<SwarmRouter>()};
}

}  // namespace helix::core
