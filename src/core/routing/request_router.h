#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/protocol/messages.h"
#include "core/routing/pipeline_graph.h"

// A router decides which way each request takes. docs/routers.md shows how to write one.

namespace helix::core {

// Of two ways whose costs differ by less than this part of what the request adds, the first is
// taken, so that rounding decides nothing.
inline constexpr double kCostTie = 1e-6;

struct RoutedRequest {
    RequestId id;
    TimePoint now;
    std::int64_t rows = 0;  // that run first: the prompt, and after a preemption its output so far
    std::int32_t priority = 0;
    bool others_run = true;  // on any worker
};

// WorkerLoad is what the coordinator knows of a worker at this moment.
struct WorkerLoad {
    std::int64_t requests = 0;     // running requests whose pipeline uses it
    double kv_pages = 0;           // that these are expected to need, or more if it reported more
    std::int64_t total_pages = 0;  // of its KV memory
    const WorkerReport* report = nullptr;  // its last, up to a report interval old; never null
    // The tokens by which every sequence there can still grow (core/coordinator/freeness.h). It is
    // known only to routers that want it.
    double freeness = 0;
};
using WorkerLoads = std::function<WorkerLoad(WorkerId)>;

struct RouterSetup {
    PipelineGraph graph;     // planned edges first, then links that the plan does not use
    std::uint64_t seed = 0;  // for all its randomness
};

// RequestRouter picks a way for every request of one placement; with a new placement comes a new
// router. It is deterministic: equal setups and calls give equal answers. Randomness comes from the
// seed, time from the events.
class RequestRouter {
  public:
    explicit RequestRouter(PipelineGraph graph) : graph_(std::move(graph)) {}
    RequestRouter(const RequestRouter&) = delete;
    RequestRouter& operator=(const RequestRouter&) = delete;
    virtual ~RequestRouter() = default;

    // Returns the graph of the ways that it knows. All edge indices below are this graph's.
    const PipelineGraph& graph() const { return graph_; }

    // Says whether route() looks at WorkerLoad::freeness, which costs a look at every request.
    virtual bool wants_freeness() const { return false; }
    // Returns a path all of whose stages fit. It must find one whenever can_route(fits) says that
    // there is one; otherwise it returns an empty path and the request waits.
    virtual Path route(const RoutedRequest& request, const StageFits& fits,
                       const WorkerLoads& loads) = 0;
    // Says whether a request could be routed through stages that fit. The coordinator also asks
    // this to know what can never fit.
    virtual bool can_route(const StageFits& fits) const { return graph_.reachable(fits); }

    // The next three tell what becomes of a request. One that an earlier router started takes part
    // from its next token on, unless its way does not exist any more.

    // This many rows go along the path: first the whole prompt, then one row per token.
    virtual void on_sent(const Path& /*path*/, std::int64_t /*rows*/) {}
    // These rows came back as a token, this long after they were sent.
    virtual void on_returned(const Path& /*path*/, std::int64_t /*rows*/, Duration /*took*/) {}
    // The request leaves the path with this many rows under way: it is done, cancelled or
    // preempted.
    virtual void on_ended(const Path& /*path*/, std::int64_t /*rows*/) {}
    virtual void on_report(WorkerId /*worker*/, const WorkerReport& /*report*/) {}

  private:
    PipelineGraph graph_;
};

// HopRouter decides hop by hop, between edges that cannot lead it into a dead end.
class HopRouter : public RequestRouter {
  public:
    using RequestRouter::RequestRouter;
    Path route(const RoutedRequest& request, const StageFits& fits, const WorkerLoads& loads) final;

  protected:
    // Returns one of these edges. There is at least one, and all go out of the same node, or for
    // the first hop of the coordinator.
    virtual std::int32_t choose(const RoutedRequest& request, std::span<const std::int32_t> edges,
                                const WorkerLoads& loads) = 0;
};

using RouterFactory = std::function<std::unique_ptr<RequestRouter>(RouterSetup)>;

// Returns a factory for routers that are made from a RouterSetup.
template <typename Router>
RouterFactory router_factory() {
    return [](RouterSetup setup) { return std::make_unique<Router>(std::move(setup)); };
}

}  // namespace helix::core
