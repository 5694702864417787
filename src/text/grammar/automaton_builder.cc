#include "text/grammar/automaton_builder.h"

#include <fmt/format.h>

#include "base/check.h"

namespace helix::text::grammar {
namespace {

// Above this many nodes a repeated expression becomes a rule of its own, so that each repetition
// costs one call.
constexpr std::size_t kSmall = 4;
// From this many items on, nodes of a counted repetition have stand-ins.
constexpr std::int32_t kMany = 4;

std::size_t rough_size(const Expr& e) {
    switch (e.kind) {
        case Expr::Kind::literal:
            return e.text.size();
        case Expr::Kind::chars:
            return e.chars.empty() || e.chars.back().last < 0x80 ? 1 : 2 * kSmall;
        case Expr::Kind::rule:
            return 1;
        case Expr::Kind::repeat:
        case Expr::Kind::graph:
        case Expr::Kind::assertion:
            return 2 * kSmall;
        case Expr::Kind::sequence:
        case Expr::Kind::choice:
            break;
    }
    std::size_t sum = 0;
    for (const Expr& item : e.items) sum += rough_size(item);
    return sum;
}

class GraphBuilder {
  public:
    explicit GraphBuilder(const Grammar& grammar) {
        for (const Rule& r : grammar.rules) add_rule(r.name, r.body);
    }

    bool build() {
        // Rules that are made on the way are appended to bodies_.
        for (std::size_t i = 0; i < bodies_.size() && fits(); ++i) {
            const RuleGraphs::RuleGraph graph = graphs_.rules[i];
            build(*bodies_[i], graph.start, graph.end);
        }
        return fits();
    }
    RuleGraphs take() { return std::move(graphs_); }

  private:
    bool fits() const { return graphs_.nodes.size() <= Automaton::kMaxNodes; }

    NodeIndex new_node() {
        graphs_.nodes.emplace_back();
        return static_cast<NodeIndex>(graphs_.nodes.size() - 1);
    }

    std::size_t add_rule(const std::string& name, const Expr& body) {
        const NodeIndex start = new_node();
        graphs_.rules.push_back({name, start, new_node()});
        bodies_.push_back(&body);
        return graphs_.rules.size() - 1;
    }

    void empty(NodeIndex from, NodeIndex to) { graphs_.nodes[from].empty.push_back(to); }
    void call(NodeIndex from, std::size_t rule, NodeIndex to) {
        graphs_.nodes[from].calls.push_back({rule, to});
    }

    void build(const Expr& e, NodeIndex from, NodeIndex to) {
        if (!fits()) return;
        switch (e.kind) {
            case Expr::Kind::literal:
                return build_literal(e.text, from, to);
            case Expr::Kind::chars:
                return build_chars(e.chars, from, to);
            case Expr::Kind::sequence:
                return build_sequence(e.items, from, to);
            case Expr::Kind::choice:
                for (const Expr& item : e.items) build(item, from, to);
                return;
            case Expr::Kind::repeat:
                return build_repeat(e, from, to);
            case Expr::Kind::rule:
                return call(from, static_cast<std::size_t>(e.rule), to);
            case Expr::Kind::graph:
                return build_graph(*e.graph, from, to);
            case Expr::Kind::assertion:
                CHECK(false);  // only patterns have them
        }
    }

    void build_literal(const std::string& text, NodeIndex from, NodeIndex to) {
        if (text.empty()) return empty(from, to);
        for (std::size_t i = 0; i < text.size(); ++i) {
            const NodeIndex next = i + 1 == text.size() ? to : new_node();
            const auto byte = static_cast<std::uint8_t>(text[i]);
            graphs_.nodes[from].bytes.push_back({{byte, byte}, next});
            from = next;
        }
    }

    void build_chars(const CharSet& set, NodeIndex from, NodeIndex to) {
        for (const ByteSequence& sequence : utf8_sequences(set)) {
            NodeIndex at = from;
            for (std::size_t i = 0; i < sequence.length; ++i) {
                const NodeIndex next = i + 1 == sequence.length ? to : new_node();
                graphs_.nodes[at].bytes.push_back({sequence.bytes[i], next});
                at = next;
            }
        }
    }

    void build_sequence(const std::vector<Expr>& items, NodeIndex from, NodeIndex to) {
        if (items.empty()) return empty(from, to);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const NodeIndex next = i + 1 == items.size() ? to : new_node();
            build(items[i], from, next);
            from = next;
        }
    }

    // A label that is used often and is not small becomes a rule of its own.
    void build_graph(const StateGraph& graph, NodeIndex from, NodeIndex to) {
        const auto first = static_cast<NodeIndex>(graphs_.nodes.size());
        std::vector<std::size_t> uses(graph.labels.size());
        for (const StateGraph::State& state : graph.states) {
            new_node();
            for (const StateGraph::Edge& edge : state.edges) ++uses[edge.label];
        }
        std::vector<std::size_t> part(graph.labels.size());  // 0: none; the root is none
        for (std::size_t i = 0; i < graph.labels.size(); ++i) {
            if (uses[i] < 2 || rough_size(graph.labels[i]) <= kSmall) continue;
            part[i] = add_rule("(characters of a text)", graph.labels[i]);
        }
        empty(from, first);
        for (std::size_t i = 0; i < graph.states.size() && fits(); ++i) {
            const StateGraph::State& state = graph.states[i];
            const NodeIndex at = first + static_cast<NodeIndex>(i);
            for (const StateGraph::Edge& edge : state.edges) {
                const NodeIndex target = first + static_cast<NodeIndex>(edge.target);
                if (part[edge.label] != 0) {
                    call(at, part[edge.label], target);
                } else {
                    build(graph.labels[edge.label], at, target);
                }
            }
            if (state.accepts) empty(at, to);
            if (state.within <= 0) continue;
            graphs_.nodes[at].stand_in = {first + static_cast<NodeIndex>(state.stand_in),
                                          state.within};
        }
    }

    void build_repeat(const Expr& e, NodeIndex from, NodeIndex to) {
        const Expr& item = e.items.front();
        const std::int32_t copies = e.max == kNoLimit ? e.min + 1 : e.max;
        if (copies > 1 && rough_size(item) > kSmall) {
            const std::size_t part = add_rule("(part of a repetition)", item);
            return repeat_with(e, from, to, [&](NodeIndex a, NodeIndex b) { call(a, part, b); });
        }
        repeat_with(e, from, to, [&](NodeIndex a, NodeIndex b) { build(item, a, b); });
    }

    // One item of a repetition: the node before it and the first of those inside.
    struct Copy {
        NodeIndex before = 0;
        NodeIndex inside = 0;
    };

    template <typename BuildItem>
    void repeat_with(const Expr& e, NodeIndex from, NodeIndex to, const BuildItem& build_item) {
        // It needs a node of its own: what leads back to it must not be an entrance for others.
        NodeIndex at = new_node();
        empty(from, at);
        std::vector<Copy> copies;
        for (std::int32_t i = 0; (i < e.min || i < e.max) && fits(); ++i) {
            if (i >= e.min) empty(at, to);
            const NodeIndex next = new_node();
            copies.push_back({at, next + 1});
            build_item(at, next);
            at = next;
        }
        const auto inside = copies.empty() ? 0 : graphs_.nodes.size() - copies.back().inside;
        const auto add_loop = [&] {
            const NodeIndex loop = new_node();
            build_item(loop, loop);
            return loop;
        };
        if (fits() && e.min >= kMany) note_stand_ins(copies, 0, e.min, copies[0], inside);
        if (fits() && e.max - e.min >= kMany) {
            const NodeIndex loop = add_loop();
            empty(loop, to);
            note_stand_ins(copies, e.min, e.max, {loop, loop + 1}, inside);
        }
        if (e.max == kNoLimit) {
            const NodeIndex loop = add_loop();
            empty(at, loop);
            at = loop;
        }
        empty(at, to);
    }

    // For copies [first, end) of an item: while more items than bytes are left before end, it does
    // not matter how many.
    void note_stand_ins(const std::vector<Copy>& copies, std::int32_t first, std::int32_t end,
                        const Copy& stand_in, std::size_t inside) {
        for (std::int32_t i = first; i < end; ++i) {
            const Copy& copy = copies[static_cast<std::size_t>(i)];
            graphs_.nodes[copy.before].stand_in = {stand_in.before, end - i};
            for (NodeIndex n = 0; n < inside; ++n) {
                graphs_.nodes[copy.inside + n].stand_in = {stand_in.inside + n, end - i - 1};
            }
        }
    }

    RuleGraphs graphs_;
    std::vector<const Expr*> bodies_;  // per rule
};

}  // namespace

base::Result<RuleGraphs> build_graphs(const Grammar& grammar) {
    GraphBuilder builder(grammar);
    if (!builder.build()) {
        return base::invalid(
            fmt::format("the grammar is too large: it needs more than {} states; use smaller "
                        "repetitions or fewer rules",
                        Automaton::kMaxNodes));
    }
    return builder.take();
}

}  // namespace helix::text::grammar
