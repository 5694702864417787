#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

using NodeIndex = std::uint32_t;

// A pushdown automaton over bytes. Each rule is a graph of nodes; an edge reads a byte, reads
// nothing, or calls a rule and goes on at its return node when that rule has ended. From every node
// that is left its rule's end can be reached, so that whatever is alive can be completed.
class Automaton {
  public:
    struct ByteEdge {
        ByteRange bytes;
        NodeIndex target = 0;
    };
    struct Call {
        std::uint32_t rank = 0;     // of the rule that is called
        bool may_be_empty = false;  // that rule may read nothing
        NodeIndex return_to = 0;    // kNoReturn: nothing is left to do, the caller's caller goes on
    };
    // A stand-in for a node within a counted repetition: over at most `within` more bytes the node
    // reads what `node` reads, for which the count does not matter.
    struct StandIn {
        NodeIndex node = 0;
        std::int32_t within = 0;
    };
    static constexpr NodeIndex kNoReturn = 0xFFFFFFFF;
    static constexpr std::size_t kMaxNodes = 50'000;

    // Error invalid: more than kMaxNodes, a rule that begins with itself, or a root that can never
    // end. It names the rule.
    static base::Result<std::shared_ptr<const Automaton>> build(const Grammar& grammar);

    NodeIndex start() const { return start_; }
    std::size_t size() const { return nodes_.size(); }
    // Rules have ranks: before a rule has read anything it calls rules of higher ranks only.
    std::size_t rule_count() const { return rule_starts_.size(); }
    NodeIndex rule_start(std::uint32_t rank) const { return rule_starts_[rank]; }
    bool is_end(NodeIndex node) const { return nodes_[node].end; }
    std::span<const ByteEdge> bytes(NodeIndex node) const { return nodes_[node].bytes; }
    std::span<const NodeIndex> empty(NodeIndex node) const { return nodes_[node].empty; }
    std::span<const Call> calls(NodeIndex node) const { return nodes_[node].calls; }
    // Whether some node has another as its stand-in.
    bool counts() const { return counts_; }
    NodeIndex stand_in(NodeIndex node, std::int32_t bytes) const {
        const StandIn& other = nodes_[node].stand_in;
        return bytes <= other.within ? other.node : node;
    }

    // The class of a byte. Bytes that no edge tells apart have the same class.
    std::uint8_t class_of(std::uint8_t byte) const { return classes_[byte]; }
    std::size_t class_count() const { return class_bytes_.size(); }
    // A byte of the class.
    std::uint8_t byte_of(std::size_t byte_class) const { return class_bytes_[byte_class]; }

    struct Node {
        std::vector<ByteEdge> bytes;
        std::vector<NodeIndex> empty;
        std::vector<Call> calls;
        StandIn stand_in;
        bool end = false;  // an end of its rule
    };

  private:
    Automaton() = default;
    void make_classes();

    std::vector<Node> nodes_;
    std::vector<NodeIndex> rule_starts_;  // by rank
    NodeIndex start_ = 0;
    bool counts_ = false;
    std::array<std::uint8_t, 256> classes_{};
    std::vector<std::uint8_t> class_bytes_;
};

}  // namespace helix::text::grammar
