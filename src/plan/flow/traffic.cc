#include "plan/flow/traffic.h"

#include <algorithm>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;

using base::at;

// What arrives at a stage goes on in the proportions of the flows that leave it. False when
// something arrives at a stage that nothing leaves, or leaves from within the model.
bool spread(std::span<const spec::LayerRange> layers, std::int32_t n_layers, double least_share,
            Traffic& traffic) {
    bool complete = true;
    std::size_t hop = 0;
    for (std::int32_t s = -1; s < static_cast<std::int32_t>(traffic.stages.size()); ++s) {
        const std::size_t first = hop;
        double sum = 0;
        double kept = 0;
        while (hop < traffic.hops.size() && traffic.hops[hop].from == s)
            sum += traffic.hops[hop++].share;
        for (std::size_t h = first; h < hop; ++h) {
            if (traffic.hops[h].share < least_share * sum) traffic.hops[h].share = 0;
            kept += traffic.hops[h].share;
        }
        const double share = s < 0 ? 1.0 : traffic.stages[at(s)].share;
        const std::int32_t end = s < 0 ? 0 : layers[at(traffic.stages[at(s)].node)].end;
        complete = complete && (kept > 0 || share <= 0);
        for (std::size_t h = first; h < hop; ++h) {
            Traffic::Hop& out = traffic.hops[h];
            out.of_sender = kept > 0 ? out.share / kept : 0;
            out.share = share * out.of_sender;
            if (out.to < 0) {
                complete = complete && (end == n_layers || out.share <= 0);
                continue;
            }
            Traffic::Stage& to = traffic.stages[at(out.to)];
            to.share += out.share;
            to.layers += out.share * (layers[at(to.node)].end - end);
        }
        if (s < 0) continue;
        Traffic::Stage& stage = traffic.stages[at(s)];
        stage.first_out = static_cast<std::uint32_t>(first);
        stage.last_out = static_cast<std::uint32_t>(hop);
        stage.layers = stage.share > 0 ? stage.layers / stage.share : 0;
        traffic.depth += stage.share;
    }
    return complete;
}

}  // namespace

TrafficBuilder::TrafficBuilder(const spec::ClusterSpec& cluster)
    : n_nodes_(cluster.nodes.size()),
      link_index_((cluster.nodes.size() + 1) * (cluster.nodes.size() + 1), -1) {
    for (std::size_t l = 0; l < cluster.links.size(); ++l) {
        const spec::LinkSpec& link = cluster.links[l];
        link_index_[at(link.from + 1) * (n_nodes_ + 1) + at(link.to + 1)] =
            static_cast<std::int32_t>(l);
    }
}

void TrafficBuilder::add_stages(std::span<const spec::LayerRange> layers,
                                std::span<const spec::LinkFlow> flows, Traffic& traffic) const {
    traffic.stages.clear();
    traffic.stage_of.assign(n_nodes_, -1);
    for (const spec::LinkFlow& flow : flows) {
        if (flow.to == kCoordinator || flow.tokens_per_s <= 0) continue;
        if (traffic.stage_of[at(flow.to)] >= 0) continue;
        traffic.stage_of[at(flow.to)] = 0;
        traffic.stages.push_back({.node = flow.to, .held = layers[at(flow.to)].size()});
    }
    // Ends rise along every hop.
    std::sort(traffic.stages.begin(), traffic.stages.end(),
              [&](const Traffic::Stage& a, const Traffic::Stage& b) {
                  const std::int32_t end_a = layers[at(a.node)].end;
                  const std::int32_t end_b = layers[at(b.node)].end;
                  return end_a != end_b ? end_a < end_b : a.node < b.node;
              });
    for (std::size_t s = 0; s < traffic.stages.size(); ++s)
        traffic.stage_of[at(traffic.stages[s].node)] = static_cast<std::int32_t>(s);
}

bool TrafficBuilder::build(std::span<const spec::LayerRange> layers, std::int32_t n_layers,
                           std::span<const spec::LinkFlow> flows, double least_share,
                           Traffic& traffic) const {
    CHECK(layers.size() == n_nodes_);
    add_stages(layers, flows, traffic);
    traffic.hops.clear();
    traffic.depth = 0;
    for (const spec::LinkFlow& flow : flows) {
        if (flow.tokens_per_s <= 0) continue;
        const std::int32_t link = link_index(flow.from, flow.to);
        CHECK(link >= 0);
        const bool enters = flow.from == kCoordinator;
        const std::int32_t from = enters ? -1 : traffic.stage_of[at(flow.from)];
        const std::int32_t to = flow.to == kCoordinator ? -1 : traffic.stage_of[at(flow.to)];
        if (from < 0 && !enters) continue;  // nothing leads there
        traffic.hops.push_back({.from = from, .to = to, .link = link, .share = flow.tokens_per_s});
    }
    std::sort(traffic.hops.begin(), traffic.hops.end(),
              [](const Traffic::Hop& a, const Traffic::Hop& b) {
                  return a.from != b.from ? a.from < b.from : a.to < b.to;
              });
    if (!spread(layers, n_layers, least_share, traffic)) return false;
    for (Traffic::Hop& hop : traffic.hops) {
        const double receiver = hop.to < 0 ? 1.0 : traffic.stages[at(hop.to)].share;
        hop.of_receiver = receiver > 0 ? hop.share / receiver : 0;
    }
    return !traffic.hops.empty() && traffic.hops.front().from < 0;
}

}  // namespace helix::plan
