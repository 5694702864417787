#include "text/grammar/automaton.h"

#include <bitset>

#include "base/check.h"
#include "text/grammar/automaton_builder.h"

namespace helix::text::grammar {

base::Result<std::shared_ptr<const Automaton>> Automaton::build(const Grammar& grammar) {
    CHECK(grammar.root >= 0 && static_cast<std::size_t>(grammar.root) < grammar.rules.size());
    TRY(RuleGraphs graphs, build_graphs(grammar));
    const auto root = static_cast<std::size_t>(grammar.root);
    TRY_VOID(remove_dead_ends(graphs, root));
    TRY(const CallOrder order, call_order(graphs));
    const std::vector<bool> only_end = only_end_follows(graphs);
    std::shared_ptr<Automaton> automaton(new Automaton());
    automaton->start_ = graphs.rules[root].start;
    automaton->nodes_.resize(graphs.nodes.size());
    for (std::size_t n = 0; n < graphs.nodes.size(); ++n) {
        RuleGraphs::Node& from = graphs.nodes[n];
        Node& to = automaton->nodes_[n];
        to.bytes = std::move(from.bytes);
        to.empty = std::move(from.empty);
        to.stand_in = from.stand_in;
        automaton->counts_ |= to.stand_in.within > 0;
        for (const RuleGraphs::Call& call : from.calls) {
            to.calls.push_back({order.rank[call.rule], order.may_be_empty[call.rule],
                                only_end[call.return_to] ? kNoReturn : call.return_to});
        }
    }
    automaton->rule_starts_.resize(graphs.rules.size());
    for (std::size_t r = 0; r < graphs.rules.size(); ++r) {
        automaton->nodes_[graphs.rules[r].end].end = true;
        automaton->rule_starts_[order.rank[r]] = graphs.rules[r].start;
    }
    automaton->make_classes();
    return std::shared_ptr<const Automaton>(std::move(automaton));
}

void Automaton::make_classes() {
    std::bitset<257> begins;  // a class begins at this byte
    begins.set(0);
    for (const Node& node : nodes_) {
        for (const ByteEdge& edge : node.bytes) {
            begins.set(edge.bytes.first);
            begins.set(std::size_t{edge.bytes.last} + 1);
        }
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
        if (begins.test(byte)) class_bytes_.push_back(static_cast<std::uint8_t>(byte));
        classes_[byte] = static_cast<std::uint8_t>(class_bytes_.size() - 1);
    }
}

}  // namespace helix::text::grammar
