#include "sim/published/reference_node.h"

// What an observer of the published world is told.

namespace helix::sim {

std::int32_t ReferenceWorld::cluster_node(std::int32_t e) const {
    return e == coordinator() ? spec::kCoordinator : setup_.nodes[static_cast<std::size_t>(e)].node;
}

void ReferenceWorld::tell_admitted(const ReferenceQuery& query) {
    std::vector<PipelineStage> pipeline;
    std::int32_t begin = 0;
    for (std::size_t h = 0; h + 1 < query.route.size(); ++h) {
        const std::int32_t to = link(query.route[h]).to;
        const std::int32_t end = nodes_[static_cast<std::size_t>(to)].layers.end;
        pipeline.push_back({cluster_node(to), {begin, end}});
        begin = end;
    }
    setup_.observer->request_admitted(query.number, time_point(now_s()), pipeline);
}

void ReferenceWorld::tell_computed(std::uint32_t n, spec::LayerRange layers) {
    const Node& node = nodes_[n];
    const std::int32_t name = cluster_node(static_cast<std::int32_t>(n));
    const base::TimePoint begin = time_point(node.busy_since_s);
    const base::TimePoint end = time_point(now_s());
    setup_.observer->node_computed(
        {name, begin, end, layers, node.batch_decodes, node.batch_prompt_tokens});
    for (const QueryId id : node.batch) {
        const ReferenceQuery& query = queries_[id];
        if (!query.followed) continue;
        setup_.observer->request_computed({query.number, name, begin, end, layers, query.tokens()});
    }
}

void ReferenceWorld::tell_carried(const ReferenceLinkState& link, const ReferenceQuery& query) {
    setup_.observer->link_carried({cluster_node(link.from), cluster_node(link.to),
                                   time_point(query.sent_s), time_point(now_s()),
                                   query.tokens() * link.bytes_per_token,
                                   base::from_seconds(query.sent_s - query.ready_s)});
}

}  // namespace helix::sim
