#include "text/grammar/token_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace helix::text::grammar {

bool TokenMask::none() const {
    return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
}

std::size_t TokenMask::count() const {
    std::size_t sum = 0;
    for (const std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
    return sum;
}

TokenMask make_token_mask(Matcher& matcher, Matcher::State state, const TokenTrie& trie) {
    TokenMask mask(trie.vocab_size());
    // After so many bytes of the node at hand.
    std::vector<Matcher::State> states(trie.max_depth() + 1, Matcher::kDead);
    states[0] = state;
    const auto nodes = trie.nodes();
    for (std::uint32_t i = 0; i < nodes.size();) {
        const TokenTrie::Node& node = nodes[i];
        Matcher::State at = matcher.next(states[node.depth], node.byte);
        if (at == Matcher::kDead) {
            i = node.end;
            continue;
        }
        if (const TokenTrie::Below* below = trie.below(node); below != nullptr) {
            at = matcher.stand_in(at, below->height);
            if ((below->bytes & ~matcher.loops(at)).none()) {
                for (const Token token : trie.tokens(i, node.end)) mask.set(token);
                i = node.end;
                continue;
            }
        }
        for (const Token token : trie.tokens(i, i + 1)) mask.set(token);
        states[node.depth + 1] = at;
        ++i;
    }
    if (matcher.accepts(state)) {
        for (const Token token : trie.end_tokens()) mask.set(token);
    }
    return mask;
}

ConstrainedText::ConstrainedText(std::shared_ptr<const Automaton> automaton,
                                 std::shared_ptr<const TokenTrie> trie,
                                 std::shared_ptr<const Tokenizer> tokenizer,
                                 std::size_t max_memory_bytes)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      tokenizer_(std::move(tokenizer)),
      matcher_(std::make_unique<Matcher>(automaton_)),
      max_memory_bytes_(max_memory_bytes) {
    TokenMask end(trie_->vocab_size());
    for (const Token token : trie_->end_tokens()) end.set(token);
    after_end_ = std::make_shared<const TokenMask>(std::move(end));
}

base::Status ConstrainedText::check() const {
    if (!matcher_->overflowed()) return base::Ok{};
    return base::invalid(
        fmt::format("the grammar is too ambiguous: there are more than {} ways to read the text so "
                    "far",
                    Matcher::kMaxWays));
}

base::Result<ConstrainedText::Position> ConstrainedText::advance(Position position, Token token) {
    const auto refuse = [&] {
        return base::invalid(fmt::format("token {} does not follow the grammar here", token));
    };
    if (tokenizer_->is_end_of_generation(token)) {
        if (!position.ended && !matcher_->accepts(position.state)) return refuse();
        return Position{position.state, true};
    }
    const std::string_view bytes = tokenizer_->token_bytes(token);
    if (position.ended || bytes.empty() || tokenizer_->is_special(token)) return refuse();
    for (const char byte : bytes) {
        position.state = matcher_->next(position.state, static_cast<std::uint8_t>(byte));
    }
    TRY_VOID(check());
    if (position.state == Matcher::kDead) return refuse();
    return position;
}

base::Result<std::shared_ptr<const TokenMask>> ConstrainedText::allowed(Position position) {
    std::shared_ptr<const TokenMask> mask = after_end_;
    if (!position.ended) {
        const Matcher::State state = matcher_->stand_in(position.state, trie_->max_depth());
        auto& known = masks_[state];
        if (known == nullptr) {
            known = std::make_shared<const TokenMask>(make_token_mask(*matcher_, state, *trie_));
        }
        mask = known;
    }
    TRY_VOID(check());
    if (mask->none()) {
        return base::invalid(
            trie_->end_tokens().empty() && matcher_->accepts(position.state)
                ? "the text is complete, but the model has no end-of-text token to say so"
                : "no token of this model's vocabulary can go on as the grammar wants");
    }
    return mask;
}

void ConstrainedText::drop_if_large() {
    const std::size_t mask_bytes = static_cast<std::size_t>(trie_->vocab_size()) / 8 + 64;
    const std::size_t kept = matcher_->memory_bytes() + masks_.size() * mask_bytes;
    if (kept < max_memory_bytes_ && !matcher_->overflowed()) return;
    matcher_ = std::make_unique<Matcher>(automaton_);
    masks_.clear();
    ++generation_;
}

}  // namespace helix::text::grammar
