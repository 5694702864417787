#include <fmt/format.h>

#include <algorithm>

#include "text/grammar/automaton_builder.h"

namespace helix::text::grammar {
namespace {

using Call = RuleGraphs::Call;

struct Back {
    NodeIndex from = 0;
    std::size_t rule = 0;
};

// Finds the nodes from which their rule's end can be reached, backwards from the ends.
class Completion {
  public:
    // with_bytes means over any edge; otherwise without reading anything.
    Completion(const RuleGraphs& graphs, bool with_bytes)
        : graphs_(graphs),
          reached_(graphs.nodes.size()),
          before_(graphs.nodes.size()),
          calls_to_(graphs.nodes.size()),
          callers_(graphs.rules.size()),
          rule_starting_(graphs.nodes.size(), -1) {
        for (NodeIndex n = 0; n < graphs.nodes.size(); ++n) add_edges(n, with_bytes);
        for (std::size_t r = 0; r < graphs.rules.size(); ++r) {
            rule_starting_[graphs.rules[r].start] = static_cast<std::int64_t>(r);
        }
        for (const auto& rule : graphs.rules) reach(rule.end);
        while (!open_.empty()) {
            const NodeIndex node = open_.back();
            open_.pop_back();
            expand(node);
        }
    }
    const std::vector<bool>& reached() const { return reached_; }

  private:
    void add_edges(NodeIndex n, bool with_bytes) {
        const auto& node = graphs_.nodes[n];
        if (with_bytes) {
            for (const auto& edge : node.bytes) before_[edge.target].push_back(n);
        }
        for (const NodeIndex target : node.empty) before_[target].push_back(n);
        for (const Call& call : node.calls) {
            calls_to_[call.return_to].push_back({n, call.rule});
            callers_[call.rule].push_back({n, call.return_to});
        }
    }
    void reach(NodeIndex node) {
        if (reached_[node]) return;
        reached_[node] = true;
        open_.push_back(node);
    }
    void expand(NodeIndex node) {
        for (const NodeIndex from : before_[node]) reach(from);
        for (const Back& back : calls_to_[node]) {
            if (reached_[graphs_.rules[back.rule].start]) reach(back.from);
        }
        if (rule_starting_[node] < 0) return;
        for (const auto& [from, to] : callers_[static_cast<std::size_t>(rule_starting_[node])]) {
            if (reached_[to]) reach(from);
        }
    }

    const RuleGraphs& graphs_;
    std::vector<bool> reached_;
    std::vector<std::vector<NodeIndex>> before_;
    std::vector<std::vector<Back>> calls_to_;                            // by return node
    std::vector<std::vector<std::pair<NodeIndex, NodeIndex>>> callers_;  // by rule: from, return
    std::vector<std::int64_t> rule_starting_;                            // by node; -1 = none
    std::vector<NodeIndex> open_;
};

// By rule: the rules that may be called before anything is read.
std::vector<std::vector<std::size_t>> first_calls(const RuleGraphs& graphs,
                                                  const Completion& nothing_read) {
    std::vector<std::vector<std::size_t>> out(graphs.rules.size());
    std::vector<std::size_t> seen(graphs.nodes.size(), graphs.rules.size());
    for (std::size_t r = 0; r < graphs.rules.size(); ++r) {
        std::vector<NodeIndex> open{graphs.rules[r].start};
        const auto visit = [&](NodeIndex node) {
            if (seen[node] == r) return;
            seen[node] = r;
            open.push_back(node);
        };
        while (!open.empty()) {
            const NodeIndex at = open.back();
            open.pop_back();
            for (const NodeIndex next : graphs.nodes[at].empty) visit(next);
            for (const Call& call : graphs.nodes[at].calls) {
                out[r].push_back(call.rule);
                if (nothing_read.reached()[graphs.rules[call.rule].start]) visit(call.return_to);
            }
        }
        std::sort(out[r].begin(), out[r].end());
        out[r].erase(std::unique(out[r].begin(), out[r].end()), out[r].end());
    }
    return out;
}

// A way through `next` from some rule back to itself. It is empty when there is none; then `done`
// has all rules, each after those that it leads to.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& next,
                                    std::vector<std::size_t>& done) {
    enum class Mark : std::uint8_t { fresh, open, left };
    struct Step {
        std::size_t rule;
        std::size_t tried;
    };
    std::vector<Mark> marks(next.size(), Mark::fresh);
    for (std::size_t first = 0; first < next.size(); ++first) {
        if (marks[first] != Mark::fresh) continue;
        std::vector<Step> path{{first, 0}};
        marks[first] = Mark::open;
        while (!path.empty()) {
            Step& step = path.back();
            if (step.tried == next[step.rule].size()) {
                marks[step.rule] = Mark::left;
                done.push_back(step.rule);
                path.pop_back();
                continue;
            }
            const std::size_t to = next[step.rule][step.tried++];
            if (marks[to] == Mark::fresh) {
                marks[to] = Mark::open;
                path.push_back({to, 0});
            } else if (marks[to] == Mark::open) {
                std::vector<std::size_t> cycle;
                for (const Step& s : path) {
                    if (s.rule == to || !cycle.empty()) cycle.push_back(s.rule);
                }
                cycle.push_back(to);
                return cycle;
            }
        }
    }
    return {};
}

}  // namespace

base::Status remove_dead_ends(RuleGraphs& graphs, std::size_t root) {
    const Completion completion(graphs, true);
    const std::vector<bool>& completes = completion.reached();
    if (!completes[graphs.rules[root].start]) {
        return base::invalid(fmt::format("rule \"{}\" matches no text: it can never be completed",
                                         graphs.rules[root].name));
    }
    for (auto& node : graphs.nodes) {
        std::erase_if(node.bytes, [&](const auto& edge) { return !completes[edge.target]; });
        std::erase_if(node.empty, [&](NodeIndex target) { return !completes[target]; });
        std::erase_if(node.calls, [&](const Call& call) {
            return !completes[call.return_to] || !completes[graphs.rules[call.rule].start];
        });
    }
    return base::Ok{};
}

base::Result<CallOrder> call_order(const RuleGraphs& graphs) {
    const Completion nothing_read(graphs, false);
    std::vector<std::size_t> done;
    const std::vector<std::size_t> cycle = find_cycle(first_calls(graphs, nothing_read), done);
    if (cycle.empty()) {
        CallOrder order;
        order.rank.resize(graphs.rules.size());
        for (std::size_t i = 0; i < done.size(); ++i) {
            order.rank[done[i]] = static_cast<std::uint32_t>(done.size() - 1 - i);
        }
        for (const auto& rule : graphs.rules) {
            order.may_be_empty.push_back(nothing_read.reached()[rule.start]);
        }
        return order;
    }
    std::string names;
    for (const std::size_t rule : cycle) {
        if (!names.empty()) names += " -> ";
        names += graphs.rules[rule].name;
    }
    return base::invalid(
        fmt::format("rule \"{}\" is left-recursive, it begins with itself: {}; put the recursion "
                    "last or use a repetition",
                    graphs.rules[cycle.front()].name, names));
}

std::vector<bool> only_end_follows(const RuleGraphs& graphs) {
    std::vector<bool> out(graphs.nodes.size());
    std::vector<std::vector<NodeIndex>> before(graphs.nodes.size());
    std::vector<std::size_t> unknown(graphs.nodes.size());
    std::vector<NodeIndex> open;
    for (const auto& rule : graphs.rules) {
        const auto& end = graphs.nodes[rule.end];
        if (!end.bytes.empty() || !end.empty.empty() || !end.calls.empty()) continue;
        out[rule.end] = true;
        open.push_back(rule.end);
    }
    for (NodeIndex n = 0; n < graphs.nodes.size(); ++n) {
        unknown[n] = graphs.nodes[n].empty.size();
        for (const NodeIndex target : graphs.nodes[n].empty) before[target].push_back(n);
    }
    while (!open.empty()) {
        const NodeIndex node = open.back();
        open.pop_back();
        for (const NodeIndex from : before[node]) {
            const auto& edges = graphs.nodes[from];
            if (--unknown[from] > 0 || !edges.bytes.empty() || !edges.calls.empty()) continue;
            if (out[from]) continue;
            out[from] = true;
            open.push_back(from);
        }
    }
    return out;
}

}  // namespace helix::text::grammar
