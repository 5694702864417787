#include "sim/published/reference_world.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "sim/published/reference_node.h"
#include "sim/published/reference_routing.h"

namespace helix::sim {
namespace {

using Kind = ReferenceEvents::Kind;

// Straight lines between measured points, in the published order of operations: the last bit of a
// time decides which of two events comes first.
double interpolate(const spec::TimeCurve& curve, double x) {
    const std::vector<double>& xs = curve.x();
    const std::vector<double>& ys = curve.y();
    const auto right = std::lower_bound(xs.begin(), xs.end(), x);
    if (right == xs.end()) return curve.at(x);
    const auto k = static_cast<std::size_t>(right - xs.begin());
    if (xs[k] == x || k == 0) return ys[k];
    return ys[k - 1] + (ys[k] - ys[k - 1]) * (x - xs[k - 1]) / (xs[k] - xs[k - 1]);
}

std::vector<double> tabulate(const spec::TimeCurve& curve, std::int64_t most) {
    std::vector<double> seconds(static_cast<std::size_t>(most) + 1);
    for (std::size_t x = 1; x < seconds.size(); ++x) {
        seconds[x] = interpolate(curve, static_cast<double>(x));
    }
    return seconds;
}

}  // namespace

ReferenceWorld::ReferenceWorld(const ReferenceSetup& setup)
    : setup_(setup), random_(setup.seed), lengths_(setup.lengths) {
    build();
    routing_ = make_routing(*this);
}

ReferenceWorld::~ReferenceWorld() = default;

void ReferenceWorld::build() {
    nodes_.resize(setup_.nodes.size());
    endpoints_.resize(nodes_.size() + 1);
    const bool apart = setup_.batching.order != ReferenceBatching::Order::fifo;
    const std::int64_t pass_tokens = setup_.batching.order == ReferenceBatching::Order::two_passes
                                         ? setup_.batching.pass_prompt_tokens
                                         : 0;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        const ReferenceNode& from = setup_.nodes[n];
        const ReferenceMachine& machine = setup_.machines[static_cast<std::size_t>(from.machine)];
        Node& node = nodes_[n];
        node.layers = from.layers;
        node.prompt_s =
            tabulate(machine.prompt_s, std::max<std::int64_t>({from.prompt_max_tokens, pass_tokens,
                                                               lengths_.longest_prompt()}));
        node.decode_s = tabulate(machine.decode_s, from.decode_max_sequences);
        if (node.decode_s.size() > 1) node.decode_s[1] *= 2;
        node.queues.resize(static_cast<std::size_t>(from.layers.size()));
        if (apart) node.prompt_queues.resize(node.queues.size());
        endpoints_[n].nic_in_bytes_per_s = from.nic_in_bytes_per_s;
        endpoints_[n].nic_out_bytes_per_s = from.nic_out_bytes_per_s;
    }
    endpoints_.back().nic_in_bytes_per_s = setup_.coordinator_nic_in_bytes_per_s;
    endpoints_.back().nic_out_bytes_per_s = setup_.coordinator_nic_out_bytes_per_s;
    for (ReferenceEndpoint& endpoint : endpoints_) {
        endpoint.in_available_bytes_per_s = endpoint.nic_in_bytes_per_s;
        endpoint.out_available_bytes_per_s = endpoint.nic_out_bytes_per_s;
    }
    for (const ReferenceLink& from : setup_.links) {
        ReferenceLinkState link;
        link.from = from.from == spec::kCoordinator ? coordinator() : from.from;
        link.to = from.to == spec::kCoordinator ? coordinator() : from.to;
        link.latency_s = from.latency_s;
        link.bandwidth_bytes_per_s = from.bandwidth_bytes_per_s;
        link.available_bytes_per_s = from.bandwidth_bytes_per_s;
        link.flow_tokens_per_s = from.flow_tokens_per_s;
        const bool outside = link.from == coordinator() || link.to == coordinator();
        link.bytes_per_token = setup_.token_bytes + (outside ? 0 : setup_.activation_bytes);
        const auto index = static_cast<std::int32_t>(links_.size());
        endpoints_[static_cast<std::size_t>(link.from)].out.push_back(index);
        endpoints_[static_cast<std::size_t>(link.to)].in.push_back(index);
        links_.push_back(link);
    }
    layer_used_.resize(static_cast<std::size_t>(setup_.n_layers));
    layer_total_.resize(layer_used_.size());
}

std::size_t ReferenceWorld::waiting_at_entry(std::int32_t node) const {
    const Node& n = nodes_[static_cast<std::size_t>(node)];
    return n.queues[0].size() + (n.prompt_queues.empty() ? 0 : n.prompt_queues[0].size());
}

QueryId ReferenceWorld::add_query(double at_s, RequestLength length) {
    QueryId id = 0;
    if (free_queries_.empty()) {
        id = static_cast<QueryId>(queries_.size());
        queries_.emplace_back();
    } else {
        id = free_queries_.back();
        free_queries_.pop_back();
    }
    ReferenceQuery& query = queries_[id];
    query.prompt_tokens = length.prompt_tokens;
    query.output_tokens = length.output_tokens;
    query.pass = 0;
    query.hop = 0;
    query.followed = false;
    query.number = n_queries_++;
    query.issued_s = at_s;
    query.route.clear();
    events_.at(at_s, Kind::arrive, id);
    return id;
}

void ReferenceWorld::drop_query(QueryId id) {
    free_queries_.push_back(id);
}

void ReferenceWorld::handle(const ReferenceEvents::Event& event) {
    switch (event.kind) {
        case Kind::arrive:
            return on_arrive(event.argument);
        case Kind::start_transmission:
            return routing_->transmit(static_cast<std::int32_t>(event.argument));
        case Kind::sent:
            return on_sent(static_cast<std::int32_t>(event.argument));
        case Kind::received:
            return on_received(event.argument);
        case Kind::gather:
            return on_gather();
        case Kind::start_execution:
            return on_start_execution(event.argument);
        case Kind::finish_execution:
            return on_finish_execution(event.argument);
    }
}

void ReferenceWorld::on_arrive(QueryId id) {
    ReferenceQuery& query = queries_[id];
    Observer* const observer = setup_.observer;
    if (observer != nullptr && query.is_prompt()) {
        query.followed = observer->request_created(query.number, time_point(now_s()),
                                                   query.prompt_tokens, query.output_tokens);
    }
    if (!routing_->issue(id)) {
        ++counts_.rejected;
        if (observer != nullptr) observer->request_rejected(query.number, time_point(now_s()));
        return drop_query(id);
    }
    if (query.is_prompt()) {
        ++counts_.admitted;
        note_resident(1);
        if (observer != nullptr) tell_admitted(query);
    }
    wait(coordinator(), id);
    transmit_later(coordinator());
}

void ReferenceWorld::note_resident(std::int64_t change) {
    const double begin_s = std::max(resident_since_s_, window_begin_s_);
    resident_s_ += static_cast<double>(n_resident_) * std::max(0.0, now_s() - begin_s);
    resident_since_s_ = now_s();
    n_resident_ += change;
}

void ReferenceWorld::wait(std::int32_t e, QueryId id) {
    queries_[id].ready_s = now_s();
    routing_->wait(e, id);
}

void ReferenceWorld::transmit_later(std::int32_t endpoint) {
    events_.now(Kind::start_transmission, static_cast<std::uint32_t>(endpoint));
}

void ReferenceWorld::send(std::int32_t l, QueryId id, double bandwidth_bytes_per_s) {
    ReferenceLinkState& link = links_[static_cast<std::size_t>(l)];
    ReferenceQuery& query = queries_[id];
    ++query.hop;
    query.sent_s = now_s();
    const double bytes = query.tokens() * link.bytes_per_token;
    const double duration_s = link.latency_s + bytes / bandwidth_bytes_per_s;
    link.busy = true;
    link.carries = id;
    link.reserved_bytes_per_s = bandwidth_bytes_per_s;
    link.available_bytes_per_s -= bandwidth_bytes_per_s;
    endpoints_[static_cast<std::size_t>(link.from)].out_available_bytes_per_s -=
        bandwidth_bytes_per_s;
    endpoints_[static_cast<std::size_t>(link.to)].in_available_bytes_per_s -= bandwidth_bytes_per_s;
    events_.at(now_s() + duration_s - link.latency_s, Kind::sent, static_cast<std::uint32_t>(l));
}

void ReferenceWorld::on_sent(std::int32_t l) {
    ReferenceLinkState& link = links_[static_cast<std::size_t>(l)];
    if (setup_.observer != nullptr) tell_carried(link, queries_[link.carries]);
    link.busy = false;
    link.available_bytes_per_s += link.reserved_bytes_per_s;
    endpoints_[static_cast<std::size_t>(link.from)].out_available_bytes_per_s +=
        link.reserved_bytes_per_s;
    endpoints_[static_cast<std::size_t>(link.to)].in_available_bytes_per_s +=
        link.reserved_bytes_per_s;
    transmit_later(link.from);
    events_.at(now_s() + link.latency_s, Kind::received, link.carries);
}

void ReferenceWorld::on_received(QueryId id) {
    const ReferenceQuery& query = queries_[id];
    const ReferenceLinkState& link = links_[static_cast<std::size_t>(query.route[query.hop - 1])];
    if (query.followed && setup_.observer != nullptr) {
        setup_.observer->request_moved({query.number, cluster_node(link.from),
                                        cluster_node(link.to), time_point(query.ready_s),
                                        time_point(query.sent_s), time_point(now_s())});
    }
    if (link.to == coordinator()) {
        at_sink_.push_back(id);
        return events_.now(Kind::gather, 0);
    }
    const auto n = static_cast<std::size_t>(link.to);
    Node& node = nodes_[n];
    const std::int32_t entry = entry_layer(query);
    const bool apart = query.is_prompt() && !node.prompt_queues.empty();
    (apart ? node.prompt_queues : node.queues)[static_cast<std::size_t>(entry)].push_back(id);
    ++(apart ? node.n_waiting_prompts : node.n_waiting);
    node.arrived_tokens += query.tokens();
    start_soon(static_cast<std::uint32_t>(n));
}

// A node that is busy beyond this instant does not care.
void ReferenceWorld::start_soon(std::uint32_t n) {
    const Node& node = nodes_[n];
    if (node.busy && node.busy_until_s > now_s()) return;
    events_.now(Kind::start_execution, n);
}

// The first layer that a query needs of the node it has come to, counted from the node's first.
std::int32_t ReferenceWorld::entry_layer(const ReferenceQuery& query) const {
    const ReferenceLinkState& link = links_[static_cast<std::size_t>(query.route[query.hop - 1])];
    if (link.from == coordinator()) return 0;
    return nodes_[static_cast<std::size_t>(link.from)].layers.end -
           nodes_[static_cast<std::size_t>(link.to)].layers.begin;
}

void ReferenceWorld::on_finish_execution(std::uint32_t n) {
    if (setup_.batching.order == ReferenceBatching::Order::two_passes) return finish_pass(n);
    Node& node = nodes_[n];
    node.busy = false;
    const std::int32_t current = node.runs_prompts ? node.current_prompt : node.current;
    if (setup_.observer != nullptr) {
        const std::int32_t layer = node.layers.begin + current;
        tell_computed(n, {layer, layer + 1});
    }
    const std::size_t next = static_cast<std::size_t>(current) + 1;
    const bool last = next == node.queues.size();
    for (const QueryId id : node.batch) {
        const ReferenceQuery& query = queries_[id];
        node.kv_used += query.tokens();
        if (last) {
            wait(static_cast<std::int32_t>(n), id);
        } else if (node.runs_prompts) {
            node.prompt_queues[next].push_back(id);
        } else {
            node.queues[next].push_back(id);
        }
    }
    if (!last) (node.runs_prompts ? node.n_waiting_prompts : node.n_waiting) += node.batch.size();
    node.kv_peak = std::max(node.kv_peak, node.kv_used);
    if (setup_.observer != nullptr) {
        setup_.observer->kv_used(cluster_node(static_cast<std::int32_t>(n)), time_point(now_s()),
                                 static_cast<double>(node.kv_used));
    }
    if (node.runs_prompts) {
        Node::march(node.current_prompt, node.prompt_queues);
    } else {
        Node::march(node.current, node.queues);
    }
    if (last) transmit_later(static_cast<std::int32_t>(n));
    events_.now(Kind::start_execution, n);
}

void ReferenceWorld::on_gather() {
    // A pass that ends may not put anything into the sink at once: there is a link in between.
    for (const QueryId id : at_sink_) {
        record_pass(queries_[id]);
        if (setup_.observer != nullptr) {
            setup_.observer->token(queries_[id].number, time_point(now_s()));
        }
        next_pass_or_end(id);
    }
    at_sink_.clear();
}

void ReferenceWorld::next_pass_or_end(QueryId id) {
    ReferenceQuery& query = queries_[id];
    const bool was_prompt = query.is_prompt();
    if (was_prompt) {
        stages_ += query.route.size() - 1;
        ++n_prompts_done_;
    }
    const bool ended = query.pass == query.output_tokens;
    if (was_prompt || ended) note_layer_kv();
    if (!ended) {
        ++query.pass;
        query.hop = 0;
        query.issued_s = now_s();
        events_.now(Kind::arrive, id);
    } else {
        ++counts_.finished;
        note_resident(-1);
        if (setup_.observer != nullptr) {
            setup_.observer->request_finished(query.number, time_point(now_s()));
        }
        routing_->finished(id);
        free_kv(query);
        drop_query(id);
    }
    if (!setup_.online && (was_prompt || ended)) feed(!ended);
}

void ReferenceWorld::feed(bool after_prompt) {
    if (now_s() > window_end_s_) return;
    if (!routing_->wants_more(after_prompt)) return;
    add_query(now_s() + setup_.offline.delay_s, lengths_.next(random_));
}

void ReferenceWorld::free_kv(const ReferenceQuery& query) {
    const std::int64_t tokens = query.prompt_tokens + query.output_tokens;
    std::int32_t begin = 0;
    for (std::size_t h = 0; h + 1 < query.route.size(); ++h) {
        Node& node = nodes_[static_cast<std::size_t>(link(query.route[h]).to)];
        node.kv_used -= tokens * (node.layers.end - begin);
        if (setup_.observer != nullptr) {
            setup_.observer->kv_used(cluster_node(link(query.route[h]).to), time_point(now_s()),
                                     static_cast<double>(node.kv_used));
        }
        begin = node.layers.end;
    }
}

void ReferenceWorld::note_layer_kv() {
    std::fill(layer_used_.begin(), layer_used_.end(), 0.0);
    std::fill(layer_total_.begin(), layer_total_.end(), 0.0);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        const auto j = static_cast<double>(nodes_[n].layers.size());
        const double used = static_cast<double>(nodes_[n].kv_used) / j;
        const double total = static_cast<double>(setup_.nodes[n].kv_capacity) / j;
        for (std::int32_t l = nodes_[n].layers.begin; l < nodes_[n].layers.end; ++l) {
            layer_used_[static_cast<std::size_t>(l)] += used;
            layer_total_[static_cast<std::size_t>(l)] += total;
        }
    }
    for (std::size_t l = 0; l < layer_used_.size(); ++l) {
        counts_.kv_layer_peak = std::max(counts_.kv_layer_peak, layer_used_[l] / layer_total_[l]);
    }
}

void ReferenceWorld::record_pass(const ReferenceQuery& query) {
    ++counts_.iterations;
    counts_.digest = base::mix64(counts_.digest ^ std::bit_cast<std::uint64_t>(now_s())) ^
                     (query.number << 16) ^ static_cast<std::uint64_t>(query.pass);
    if (now_s() < window_begin_s_ || now_s() > window_end_s_) return;
    (query.is_prompt() ? ttft_ : tpot_).add(now_s() - query.issued_s);
    (query.is_prompt() ? prompt_tokens_ : decode_tokens_) +=
        static_cast<std::uint64_t>(query.tokens());
}

SimReport ReferenceWorld::report() const {
    SimReport report = counts_;
    report.decode_tokens_per_s = static_cast<double>(decode_tokens_) / setup_.duration_s;
    report.prompt_tokens_per_s = static_cast<double>(prompt_tokens_) / setup_.duration_s;
    report.ttft = ttft_.summary();
    report.tpot = tpot_.summary();
    if (n_prompts_done_ > 0) {
        report.mean_depth = static_cast<double>(stages_) / static_cast<double>(n_prompts_done_);
    }
    const double tail_s =
        std::max(0.0, window_end_s_ - std::max(resident_since_s_, window_begin_s_));
    report.mean_resident =
        (resident_s_ + static_cast<double>(n_resident_) * tail_s) / setup_.duration_s;
    report.events = events_.n_created();
    report.max_flow_tokens_per_s = setup_.max_flow_tokens_per_s;
    report.node_busy.resize(setup_.n_cluster_nodes);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        const double peak = static_cast<double>(nodes_[n].kv_peak) /
                            static_cast<double>(setup_.nodes[n].kv_capacity);
        report.kv_peak = std::max(report.kv_peak, peak);
        report.node_busy[static_cast<std::size_t>(setup_.nodes[n].node)] =
            nodes_[n].busy_s / setup_.duration_s;
    }
    report.kv_overflowed = report.kv_peak > 1;
    return report;
}

}  // namespace helix::sim
