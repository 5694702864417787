#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace helix::text::grammar {

// The tokens that write text, by their bytes, in one array in the order of a walk: a node comes
// before all that begin with it.
class TokenTrie {
  public:
    struct Node {
        std::uint8_t byte = 0;
        std::uint32_t depth = 0;        // 0: one byte read
        std::uint32_t end = 0;          // after its subtree
        std::uint32_t first_token = 0;  // of those that end in the subtree, itself first
        std::uint32_t own_tokens = 0;   // how many end at the node itself
        std::int32_t below = -1;        // in below_, of large subtrees only
    };
    struct Below {
        ByteSet bytes;           // all bytes in the subtree but the node's own
        std::size_t height = 0;  // bytes of the longest way down
    };

    // Leaves out tokens without bytes and special tokens but those whose text is one of markers.
    explicit TokenTrie(const Tokenizer& tokenizer, std::span<const std::string> markers = {});

    std::span<const Node> nodes() const { return nodes_; }
    std::size_t max_depth() const { return max_depth_; }
    // Tokens that end in nodes [begin, end) of the walk.
    std::span<const Token> tokens(std::uint32_t begin, std::uint32_t end) const {
        const std::uint32_t last = end == nodes_.size() ? static_cast<std::uint32_t>(tokens_.size())
                                                        : nodes_[end].first_token;
        return std::span(tokens_).subspan(nodes_[begin].first_token,
                                          last - nodes_[begin].first_token);
    }
    // The fewest tokens that write a text of at least one byte, of which the first; nothing if none
    // do. Takes O(text * longest token).
    struct Writing {
        Token first = 0;
        std::size_t tokens = 0;
    };
    std::optional<Writing> shortest_writing(std::string_view text) const;
    // What is known of a node's subtree; nullptr for a small one.
    const Below* below(const Node& node) const {
        return node.below < 0 ? nullptr : &below_[static_cast<std::size_t>(node.below)];
    }

    std::int32_t vocab_size() const { return vocab_size_; }
    // Whether it is a token that writes text.
    bool writes(Token token) const { return writes_[static_cast<std::size_t>(token)]; }
    // The tokens that end a text.
    std::span<const Token> end_tokens() const { return end_tokens_; }

  private:
    void note_large_subtrees();

    std::vector<Node> nodes_;
    std::vector<Token> tokens_;
    std::vector<bool> writes_;  // by token
    std::vector<Below> below_;
    std::vector<Token> end_tokens_;
    std::size_t max_depth_ = 0;
    std::int32_t vocab_size_ = 0;
};

}  // namespace helix::text::grammar
