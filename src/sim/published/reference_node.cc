#include "sim/published/reference_node.h"

#include <algorithm>

#include "base/check.h"

// What a node of the published world computes next, and how long it takes.

namespace helix::sim {
namespace {

// What copying an activation into a batch and onto the device costs, bytes/s.
constexpr double kConcatBytesPerS = 4e9;
constexpr double kTransferBytesPerS = 5e9;

}  // namespace

// decode_first only: prompts or decodes? The march stands at a layer with something waiting, if
// there is one.
void ReferenceWorld::choose_kind(Node& node) const {
    const std::int32_t every = setup_.batching.prompt_every;
    const bool prompts_turn = every > 0 && node.decode_layers >= every;
    node.runs_prompts = node.n_waiting_prompts > 0 && (node.n_waiting == 0 || prompts_turn);
    node.decode_layers = node.runs_prompts ? 0 : node.decode_layers + 1;
}

// Takes what fits from the queue in its order; what does not fit is passed by what does. Returns
// the seconds of one layer.
double ReferenceWorld::take_batch(const ReferenceNode& limits, Node& node) {
    std::vector<QueryId>& queue =
        node.runs_prompts ? node.prompt_queues[static_cast<std::size_t>(node.current_prompt)]
                          : node.queues[static_cast<std::size_t>(node.current)];
    const std::int32_t most_prompts =
        node.runs_prompts ? std::min(limits.prompt_max_requests, setup_.batching.prompts_per_layer)
                          : limits.prompt_max_requests;
    std::int32_t prompts = 0;
    std::int32_t decodes = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t context = 0;
    node.batch.clear();
    std::size_t left = 0;
    for (const QueryId id : queue) {
        const ReferenceQuery& query = queries_[id];
        bool fits = false;
        if (query.is_prompt()) {
            fits = prompts < most_prompts &&
                   prompt_tokens + query.prompt_tokens <= limits.prompt_max_tokens;
            prompts += fits ? 1 : 0;
            prompt_tokens += fits ? query.prompt_tokens : 0;
        } else {
            fits = decodes < limits.decode_max_sequences &&
                   context + query.context() <= limits.decode_max_context;
            decodes += fits ? 1 : 0;
            context += fits ? query.context() : 0;
        }
        if (fits) {
            node.batch.push_back(id);
        } else {
            queue[left++] = id;
        }
    }
    queue.resize(left);
    (node.runs_prompts ? node.n_waiting_prompts : node.n_waiting) -= node.batch.size();
    node.batch_decodes = decodes;
    node.batch_prompt_tokens = static_cast<std::int32_t>(prompt_tokens);
    return node.prompt_s[static_cast<std::size_t>(prompt_tokens)] +
           node.decode_s[static_cast<std::size_t>(decodes)];
}

void ReferenceWorld::on_start_execution(std::uint32_t n) {
    if (setup_.batching.order == ReferenceBatching::Order::two_passes) return start_pass(n);
    Node& node = nodes_[n];
    if (node.busy || node.n_waiting + node.n_waiting_prompts == 0) return;
    if (!node.prompt_queues.empty()) choose_kind(node);
    std::int32_t& current = node.runs_prompts ? node.current_prompt : node.current;
    const auto& queues = node.runs_prompts ? node.prompt_queues : node.queues;
    if (queues[static_cast<std::size_t>(current)].empty()) Node::march(current, queues);
    double seconds = take_batch(setup_.nodes[n], node);
    CHECK(!node.batch.empty());  // run_reference() has seen that every request fits alone
    if (current == 0) {
        const double bytes = static_cast<double>(node.arrived_tokens) * setup_.activation_bytes;
        seconds += bytes / kConcatBytesPerS + bytes / kTransferBytesPerS;
        node.arrived_tokens = 0;
    }
    run_for(node, n, seconds);
}

void ReferenceWorld::run_for(Node& node, std::uint32_t n, double seconds) {
    node.busy = true;
    node.busy_since_s = now_s();
    node.busy_until_s = now_s() + seconds;
    node.busy_s += std::max(
        0.0, std::min(node.busy_until_s, window_end_s_) - std::max(now_s(), window_begin_s_));
    events_.at(node.busy_until_s, ReferenceEvents::Kind::finish_execution, n);
}

}  // namespace helix::sim
