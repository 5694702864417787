#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "base/check.h"
#include "sim/published/reference_routing.h"

// The published max-flow scheduler takes at each hop the link with the least load in
// proportion to its flow, among those whose node has room by the KV estimate.

namespace helix::sim {
namespace {

constexpr double kExpectedOutput = 240;
constexpr double kLeastShare = 0.05;  // of a node's outgoing flow; links with less are not used

class MaxFlowRouting final : public ReferenceRouting {
  public:
    explicit MaxFlowRouting(ReferenceWorld& world);
    bool issue(QueryId id) override;
    void wait(std::int32_t endpoint, QueryId id) override;
    void transmit(std::int32_t endpoint) override;
    void finished(QueryId id) override;
    bool wants_more(bool after_prompt) override;

  private:
    struct Waiting {
        QueryId id = 0;
        std::uint64_t order = 0;
    };
    struct Link {
        double load = 0;
        double bandwidth_bytes_per_s = 0;
        std::deque<Waiting> queue;
        std::deque<Waiting> prompts;  // where decodes overtake prompts
        bool idle_queue() const { return queue.empty() && prompts.empty(); }
    };
    struct NodeKv {
        std::int64_t available = 0;
        std::int64_t capacity = 0;
        std::int32_t n_layers = 0;
    };

    std::int64_t expected_tokens(const ReferenceQuery& query) const {
        return static_cast<std::int64_t>(query.prompt_tokens +
                                         kExpectedOutput * world_.setup().output_ratio);
    }
    std::int32_t choose(std::int32_t endpoint, const ReferenceQuery& query) const;
    bool find_route(ReferenceQuery& query);
    void charge(const ReferenceQuery& query, std::int64_t sign);
    double usable_bandwidth(std::int32_t link) const;
    double outgoing_flow(std::int32_t endpoint) const;

    ReferenceWorld& world_;
    bool decodes_overtake_;
    std::uint64_t order_ = 0;
    std::vector<Link> links_;
    std::vector<NodeKv> kv_;
    std::vector<double> out_flow_;        // of each endpoint
    std::vector<std::size_t> n_waiting_;  // at each endpoint
    std::vector<std::int32_t> sending_;
    std::vector<double> layer_free_;
    std::vector<double> layer_total_;
};

MaxFlowRouting::MaxFlowRouting(ReferenceWorld& world)
    : world_(world),
      decodes_overtake_(world.setup().batching.order == ReferenceBatching::Order::decode_first &&
                        world.setup().batching.links_too) {
    const auto n_endpoints = static_cast<std::size_t>(world.n_endpoints());
    n_waiting_.resize(n_endpoints);
    for (std::int32_t e = 0; e < world.n_endpoints(); ++e) out_flow_.push_back(outgoing_flow(e));
    for (const ReferenceNode& node : world.setup().nodes) {
        kv_.push_back({node.kv_capacity, node.kv_capacity, node.layers.size()});
    }
    links_.resize(static_cast<std::size_t>(world.n_links()));
    for (std::int32_t l = 0; l < world.n_links(); ++l) {
        links_[static_cast<std::size_t>(l)].bandwidth_bytes_per_s = usable_bandwidth(l);
    }
    layer_free_.resize(static_cast<std::size_t>(world.setup().n_layers));
    layer_total_.resize(layer_free_.size());
}

double MaxFlowRouting::outgoing_flow(std::int32_t e) const {
    double sum = 0;
    for (const std::int32_t l : world_.endpoint(e).out) sum += world_.link(l).flow_tokens_per_s;
    return sum;
}

// A link may take its share, by planned bytes, of the NICs at both ends.
double MaxFlowRouting::usable_bandwidth(std::int32_t l) const {
    const auto used = [&](std::int32_t k) {
        const ReferenceLinkState& link = world_.link(k);
        return link.bandwidth_bytes_per_s * link.flow_tokens_per_s /
               (link.bandwidth_bytes_per_s / link.bytes_per_token);
    };
    const ReferenceLinkState& link = world_.link(l);
    if (link.flow_tokens_per_s <= 0) return 0;
    double out = 0;
    for (const std::int32_t k : world_.endpoint(link.from).out) out += used(k);
    double in = 0;
    for (const std::int32_t k : world_.endpoint(link.to).in) in += used(k);
    const double from_nic = world_.endpoint(link.from).nic_out_bytes_per_s * (used(l) / out);
    const double to_nic = used(l) / in * world_.endpoint(link.to).nic_in_bytes_per_s;
    return std::floor(std::min({link.bandwidth_bytes_per_s, from_nic, to_nic}));
}

// -1: no link can be taken.
std::int32_t MaxFlowRouting::choose(std::int32_t e, const ReferenceQuery& query) const {
    const ReferenceSetup& setup = world_.setup();
    const double least_flow = kLeastShare * out_flow_[static_cast<std::size_t>(e)];
    const std::int64_t expected = expected_tokens(query);
    std::int32_t best = -1;
    double best_load = std::numeric_limits<double>::infinity();
    for (const std::int32_t l : world_.endpoint(e).out) {
        const ReferenceLinkState& link = world_.link(l);
        if (link.flow_tokens_per_s < least_flow || link.flow_tokens_per_s <= 0) continue;
        if (link.to != world_.coordinator()) {
            const auto n = static_cast<std::size_t>(link.to);
            if (query.prompt_tokens > setup.nodes[n].prompt_max_tokens) continue;
            const std::int64_t left = kv_[n].available - expected * kv_[n].n_layers;
            const double reserve = (1 - setup.kv_high_water) * static_cast<double>(kv_[n].capacity);
            if (static_cast<double>(left) < reserve) continue;
        }
        const double load =
            links_[static_cast<std::size_t>(l)].load + query.prompt_tokens / link.flow_tokens_per_s;
        if (load < best_load) {
            best = l;
            best_load = load;
        }
    }
    return best;
}

bool MaxFlowRouting::find_route(ReferenceQuery& query) {
    std::int32_t at = world_.coordinator();
    do {
        const std::int32_t l = choose(at, query);
        if (l < 0) {
            for (const std::int32_t taken : query.route) {
                links_[static_cast<std::size_t>(taken)].load -=
                    query.prompt_tokens / world_.link(taken).flow_tokens_per_s;
            }
            query.route.clear();
            return false;
        }
        links_[static_cast<std::size_t>(l)].load +=
            query.prompt_tokens / world_.link(l).flow_tokens_per_s;
        query.route.push_back(l);
        at = world_.link(l).to;
    } while (at != world_.coordinator());
    return true;
}

void MaxFlowRouting::charge(const ReferenceQuery& query, std::int64_t sign) {
    const std::int64_t expected = expected_tokens(query);
    std::int32_t begin = 0;
    for (std::size_t h = 0; h + 1 < query.route.size(); ++h) {
        const auto n = static_cast<std::size_t>(world_.link(query.route[h]).to);
        const std::int32_t end = world_.setup().nodes[n].layers.end;
        kv_[n].available -= sign * expected * (end - begin);
        begin = end;
    }
}

bool MaxFlowRouting::issue(QueryId id) {
    ReferenceQuery& query = world_.query(id);
    if (query.is_prompt()) {
        if (!find_route(query)) return false;
        charge(query, 1);
        return true;
    }
    for (const std::int32_t l : query.route) {
        links_[static_cast<std::size_t>(l)].load += 1 / world_.link(l).flow_tokens_per_s;
    }
    return true;
}

void MaxFlowRouting::finished(QueryId id) {
    charge(world_.query(id), -1);
}

void MaxFlowRouting::wait(std::int32_t e, QueryId id) {
    const ReferenceQuery& query = world_.query(id);
    Link& link = links_[static_cast<std::size_t>(query.route[query.hop])];
    const bool apart = decodes_overtake_ && query.is_prompt();
    (apart ? link.prompts : link.queue).push_back({id, order_++});
    ++n_waiting_[static_cast<std::size_t>(e)];
}

// Every free link takes the first that waits for it; earlier ones are sent first.
void MaxFlowRouting::transmit(std::int32_t e) {
    if (n_waiting_[static_cast<std::size_t>(e)] == 0) return;
    sending_.clear();
    for (const std::int32_t l : world_.endpoint(e).out) {
        if (world_.link(l).busy || links_[static_cast<std::size_t>(l)].idle_queue()) continue;
        sending_.push_back(l);
    }
    const auto front = [&](std::int32_t l) -> std::deque<Waiting>& {
        Link& link = links_[static_cast<std::size_t>(l)];
        return link.queue.empty() ? link.prompts : link.queue;
    };
    if (sending_.size() > 1) {
        std::sort(sending_.begin(), sending_.end(), [&](std::int32_t a, std::int32_t b) {
            return front(a).front().order < front(b).front().order;
        });
    }
    for (const std::int32_t l : sending_) {
        std::deque<Waiting>& queue = front(l);
        const QueryId id = queue.front().id;
        queue.pop_front();
        --n_waiting_[static_cast<std::size_t>(e)];
        world_.send(l, id, links_[static_cast<std::size_t>(l)].bandwidth_bytes_per_s);
    }
}

// The fullest layer, as the published estimate has it: each node's room is spread over its layers.
bool MaxFlowRouting::wants_more(bool) {
    std::fill(layer_free_.begin(), layer_free_.end(), 0.0);
    std::fill(layer_total_.begin(), layer_total_.end(), 0.0);
    for (std::size_t n = 0; n < kv_.size(); ++n) {
        const double free = static_cast<double>(kv_[n].available) / kv_[n].n_layers;
        const double total = static_cast<double>(kv_[n].capacity) / kv_[n].n_layers;
        const spec::LayerRange layers = world_.setup().nodes[n].layers;
        for (std::int32_t l = layers.begin; l < layers.end; ++l) {
            layer_free_[static_cast<std::size_t>(l)] += free;
            layer_total_[static_cast<std::size_t>(l)] += total;
        }
    }
    double fullest = 0;
    for (std::size_t l = 0; l < layer_free_.size(); ++l) {
        fullest = std::max(fullest, 1 - layer_free_[l] / layer_total_[l]);
    }
    return fullest <= world_.setup().offline.feed_below;
}

}  // namespace

std::unique_ptr<ReferenceRouting> make_max_flow_routing(ReferenceWorld& world) {
    return std::make_unique<MaxFlowRouting>(world);
}

}  // namespace helix::sim
