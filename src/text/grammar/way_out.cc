#include "text/grammar/way_out.h"

#include <functional>
#include <queue>
#include <utility>

namespace helix::text::grammar {
namespace {

constexpr NodeIndex kNoReturn = Automaton::kNoReturn;

// A call of a node, seen from what it waits for.
struct Waiting {
    NodeIndex caller = 0;
    NodeIndex rule_start = 0;
    NodeIndex return_to = kNoReturn;
};

// Where the edges come from, by the node that they lead to.
struct Sources {
    explicit Sources(const Automaton& automaton)
        : bytes(automaton.size()), empty(automaton.size()), calls(automaton.size()) {
        for (NodeIndex node = 0; node < automaton.size(); ++node) {
            for (const auto& edge : automaton.bytes(node)) bytes[edge.target].push_back(node);
            for (const NodeIndex target : automaton.empty(node)) empty[target].push_back(node);
            for (const auto& call : automaton.calls(node)) {
                const Waiting waiting{node, automaton.rule_start(call.rank), call.return_to};
                calls[waiting.rule_start].push_back(waiting);
                if (call.return_to != kNoReturn) calls[call.return_to].push_back(waiting);
            }
        }
    }
    std::vector<std::vector<NodeIndex>> bytes;
    std::vector<std::vector<NodeIndex>> empty;
    std::vector<std::vector<Waiting>> calls;  // under the rule's start and where it returns to
};

}  // namespace

std::uint32_t add_bytes(std::uint32_t a, std::uint32_t b) {
    return a > WayOut::kNone - b ? WayOut::kNone : a + b;
}

WayOut::WayOut(const Automaton& automaton) : bytes_(automaton.size(), kNone) {
    const Sources sources(automaton);
    using Reached = std::pair<std::uint32_t, NodeIndex>;
    std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open;
    const auto reach = [&](NodeIndex node, std::uint32_t bytes) {
        if (bytes < bytes_[node]) {
            bytes_[node] = bytes;
            open.emplace(bytes, node);
        }
    };
    for (NodeIndex node = 0; node < automaton.size(); ++node) {
        if (automaton.is_end(node)) reach(node, 0);
    }
    while (!open.empty()) {
        const auto [bytes, node] = open.top();
        open.pop();
        if (bytes > bytes_[node]) continue;
        for (const NodeIndex from : sources.bytes[node]) reach(from, add_bytes(bytes, 1));
        for (const NodeIndex from : sources.empty[node]) reach(from, bytes);
        for (const Waiting& call : sources.calls[node]) {
            const std::uint32_t after = call.return_to == kNoReturn ? 0 : bytes_[call.return_to];
            reach(call.caller, add_bytes(bytes_[call.rule_start], after));
        }
    }
}

}  // namespace helix::text::grammar
