#include "text/special_matcher.h"

namespace helix::text {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
    return std::uint64_t{node} * 256 + static_cast<unsigned char>(byte);
}

}  // namespace

void SpecialMatcher::add(std::string_view text, spec::Token token) {
    if (text.empty()) return;
    first_bytes_.set(static_cast<unsigned char>(text[0]));
    Node node = 0;
    for (const char byte : text) {
        const auto [at, is_new] =
            edges_.emplace(edge(node, byte), static_cast<Node>(tokens_.size()));
        if (is_new) tokens_.push_back(-1);
        node = at->second;
    }
    tokens_[node] = token;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text,
                                                          std::size_t from) const {
    if (edges_.empty()) return std::nullopt;
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        if (!first_bytes_.test(static_cast<unsigned char>(text[begin]))) continue;
        std::optional<Match> longest;
        Node node = 0;
        for (std::size_t i = begin; i < text.size(); ++i) {
            const auto next = edges_.find(edge(node, text[i]));
            if (next == edges_.end()) break;
            node = next->second;
            if (tokens_[node] >= 0) longest = Match{begin, i + 1 - begin, tokens_[node]};
        }
        if (longest) return longest;
    }
    return std::nullopt;
}

}  // namespace helix::text
