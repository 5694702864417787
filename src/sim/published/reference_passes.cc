#include <algorithm>

#include "base/check.h"
#include "sim/published/reference_node.h"

// ReferenceBatching::Order::two_passes: a worker of the published prototype. Its loop takes in what
// the network has brought, runs the prompts through all layers, hands them on, and runs the
// decodes.

namespace helix::sim {
namespace {

// As reference_node.cc has it for the way in: into one tensor, and over the bus.
constexpr double kCopySPerByte = 1 / 4e9 + 1 / 5e9;

}  // namespace

void ReferenceWorld::start_pass(std::uint32_t n) {
    Node& node = nodes_[n];
    if (node.busy) return;
    double seconds = 0;
    if (!node.decodes_due.empty()) {  // the second pass
        seconds = take_decode_pass(setup_.nodes[n], node);
    } else {
        if (node.n_waiting + node.n_waiting_prompts == 0) return;
        take_in(node);
        const double bytes = static_cast<double>(node.arrived_tokens) * setup_.activation_bytes;
        node.arrived_tokens = 0;
        seconds = bytes * kCopySPerByte + (node.n_waiting_prompts > 0
                                               ? take_prompt_pass(node)
                                               : take_decode_pass(setup_.nodes[n], node));
    }
    CHECK(!node.batch.empty());
    run_for(node, n, seconds + copy_out_s(n));
}

// Prompts stay in their queues: what one pass does not take, the next one may.
void ReferenceWorld::take_in(Node& node) {
    for (std::vector<QueryId>& queue : node.queues) {
        node.decodes_due.insert(node.decodes_due.end(), queue.begin(), queue.end());
        queue.clear();
    }
    node.n_waiting = 0;
}

// A layer without anything to do is passed over.
double ReferenceWorld::layer_s(double device_s) const {
    return device_s > 0 ? std::max(device_s, setup_.batching.layer_host_s) : 0;
}

double ReferenceWorld::take_prompt_pass(Node& node) {
    node.runs_prompts = true;
    node.batch.clear();
    std::int32_t tokens = 0;
    double seconds = 0;
    for (std::size_t entry = 0; entry < node.prompt_queues.size(); ++entry) {
        std::vector<QueryId>& queue = node.prompt_queues[entry];
        std::size_t taken = 0;
        for (; taken < queue.size(); ++taken) {
            const std::int32_t more = queries_[queue[taken]].prompt_tokens;
            if (tokens > 0 && tokens + more > setup_.batching.pass_prompt_tokens) break;
            tokens += more;
            node.batch.push_back(queue[taken]);
        }
        queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken));
        seconds += layer_s(node.prompt_s[static_cast<std::size_t>(tokens)]);
    }
    node.n_waiting_prompts -= node.batch.size();
    node.batch_prompt_tokens = tokens;
    node.batch_decodes = 0;
    return seconds;
}

double ReferenceWorld::take_decode_pass(const ReferenceNode& limits, Node& node) {
    node.runs_prompts = false;
    const auto n =
        std::min(node.decodes_due.size(), static_cast<std::size_t>(limits.decode_max_sequences));
    node.batch.assign(node.decodes_due.begin(),
                      node.decodes_due.begin() + static_cast<std::ptrdiff_t>(n));
    node.decodes_due.erase(node.decodes_due.begin(),
                           node.decodes_due.begin() + static_cast<std::ptrdiff_t>(n));
    std::vector<std::size_t> entering(node.queues.size());
    for (const QueryId id : node.batch) {
        ++entering[static_cast<std::size_t>(entry_layer(queries_[id]))];
    }
    std::size_t inside = 0;
    double seconds = 0;
    for (const std::size_t more : entering) {
        inside += more;
        seconds += layer_s(node.decode_s[inside]);
    }
    node.batch_prompt_tokens = 0;
    node.batch_decodes = static_cast<std::int32_t>(n);
    return seconds;
}

// The last stage hands on token ids only.
double ReferenceWorld::copy_out_s(std::uint32_t n) const {
    const Node& node = nodes_[n];
    if (node.layers.end == setup_.n_layers) return 0;
    return (node.batch_prompt_tokens + node.batch_decodes) * setup_.activation_bytes *
           kCopySPerByte;
}

void ReferenceWorld::finish_pass(std::uint32_t n) {
    Node& node = nodes_[n];
    node.busy = false;
    if (setup_.observer != nullptr) tell_computed(n, node.layers);
    for (const QueryId id : node.batch) {
        const ReferenceQuery& query = queries_[id];
        node.kv_used +=
            static_cast<std::int64_t>(query.tokens()) * (node.layers.size() - entry_layer(query));
        wait(static_cast<std::int32_t>(n), id);
    }
    node.kv_peak = std::max(node.kv_peak, node.kv_used);
    if (setup_.observer != nullptr) {
        setup_.observer->kv_used(cluster_node(static_cast<std::int32_t>(n)), time_point(now_s()),
                                 static_cast<double>(node.kv_used));
    }
    transmit_later(static_cast<std::int32_t>(n));
    events_.now(ReferenceEvents::Kind::start_execution, n);
}

}  // namespace helix::sim
