#include "text/grammar/token_trie.h"

#include <algorithm>
#include <string_view>

namespace helix::text::grammar {
namespace {

constexpr std::uint32_t kLargeSubtree = 16;  // nodes

std::size_t common_prefix(std::string_view a, std::string_view b) {
    const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::span<const std::string> markers)
    : writes_(static_cast<std::size_t>(tokenizer.vocab_size())),
      vocab_size_(tokenizer.vocab_size()) {
    for (Token token = 0; token < vocab_size_; ++token) {
        const std::string_view bytes = tokenizer.token_bytes(token);
        if (tokenizer.is_end_of_generation(token)) {
            end_tokens_.push_back(token);
        } else if (!bytes.empty() && (!tokenizer.is_special(token) ||
                                      std::ranges::find(markers, bytes) != markers.end())) {
            tokens_.push_back(token);
            writes_[static_cast<std::size_t>(token)] = true;
        }
    }
    std::sort(tokens_.begin(), tokens_.end(), [&](Token a, Token b) {
        const std::string_view x = tokenizer.token_bytes(a);
        const std::string_view y = tokenizer.token_bytes(b);
        return x != y ? x < y : a < b;
    });
    std::vector<std::uint32_t> path;  // the nodes of the last token
    std::string_view last;
    const auto leave = [&](std::size_t depth) {
        for (std::size_t d = depth; d < path.size(); ++d) {
            nodes_[path[d]].end = static_cast<std::uint32_t>(nodes_.size());
        }
        path.resize(std::min(depth, path.size()));
    };
    for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
        const std::string_view bytes = tokenizer.token_bytes(tokens_[i]);
        leave(common_prefix(last, bytes));
        while (path.size() < bytes.size()) {
            const auto depth = static_cast<std::uint32_t>(path.size());
            path.push_back(static_cast<std::uint32_t>(nodes_.size()));
            nodes_.push_back({static_cast<std::uint8_t>(bytes[depth]), depth, 0, i, 0, -1});
        }
        ++nodes_[path.back()].own_tokens;
        max_depth_ = std::max(max_depth_, bytes.size());
        last = bytes;
    }
    leave(0);
    note_large_subtrees();
}

void TokenTrie::note_large_subtrees() {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].end - i <= kLargeSubtree) continue;
        nodes_[i].below = static_cast<std::int32_t>(below_.size());
        Below& below = below_.emplace_back();
        for (std::uint32_t n = i + 1; n < nodes_[i].end; ++n) {
            below.bytes.set(nodes_[n].byte);
            below.height = std::max<std::size_t>(below.height, nodes_[n].depth - nodes_[i].depth);
        }
    }
}

std::optional<TokenTrie::Writing> TokenTrie::shortest_writing(std::string_view text) const {
    std::vector<std::optional<Writing>> from(text.size() + 1);  // from each place to the end
    from[text.size()] = Writing{};
    for (std::size_t begin = text.size(); begin-- > 0;) {
        std::uint32_t node = 0;
        auto end = static_cast<std::uint32_t>(nodes_.size());  // of those that may come next
        for (std::size_t at = begin; at < text.size(); ++at) {
            while (node < end && nodes_[node].byte != static_cast<std::uint8_t>(text[at])) {
                node = nodes_[node].end;
            }
            if (node >= end) break;
            const auto& rest = from[at + 1];
            if (nodes_[node].own_tokens > 0 && rest &&
                (!from[begin] || rest->tokens + 1 < from[begin]->tokens)) {
                from[begin] = {tokens_[nodes_[node].first_token], rest->tokens + 1};
            }
            end = nodes_[node].end;
            ++node;
        }
    }
    return from[0];
}

}  // namespace helix::text::grammar
