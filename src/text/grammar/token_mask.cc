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
    // The state after each number of bytes of the node at hand.
    std::vector<Matcher::State> states(trie.max_depth() + 1, Matcher::kDead);
    states[0] = state;
    const auto nodes = trie.nodes();
    for (std::uint32_t i = 0; i < nodes.size() && matcher.trouble() == Matcher::Trouble::none;) {
        const TokenTrie::Node& node = nodes[i];
        Matcher::State at = matcher.next(states[node.depth], node.byte);
        if (at == Matcher::kDead) {
            i = node.end;
            continue;
        }
        if (const TokenTrie::Below* below = trie.below(node); below != nullptr) {
            at = matcher.stand_in(at, below->height);
            if (matcher.stays(at, below->bytes)) {
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
                                 const MaskLimits& limits)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      tokenizer_(std::move(tokenizer)),
      matcher_(std::make_unique<Matcher>(automaton_)),
      limits_(limits) {
    TokenMask end(trie_->vocab_size());
    for (const Token token : trie_->end_tokens()) end.set(token);
    after_end_ = std::make_shared<const TokenMask>(std::move(end));
}

base::Status ConstrainedText::check() const {
    switch (matcher_->trouble()) {
        case Matcher::Trouble::none:
            break;
        case Matcher::Trouble::ways:
            return base::invalid(
                fmt::format("the grammar is too ambiguous: there are more than {} ways to read the "
                            "text so far",
                            Matcher::kMaxWays));
        case Matcher::Trouble::steps:
            return base::invalid(
                fmt::format("the grammar is too costly: finding the tokens that may follow takes "
                            "more than {} steps here",
                            limits_.mask_steps));
    }
    return base::Ok{};
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
    if (position.ended || !tokenizer_->contains(token) || !trie_->writes(token)) return refuse();
    matcher_->begin_count(limits_.mask_steps);
    for (const char byte : bytes) {
        position.state = matcher_->next(position.state, static_cast<std::uint8_t>(byte));
    }
    TRY_VOID(check());
    if (position.state == Matcher::kDead) return refuse();
    position.steps += matcher_->steps();
    if (position.steps > limits_.text_steps) {
        return base::invalid(
            fmt::format("the grammar is too costly: following the text so far takes more than {} "
                        "steps",
                        limits_.text_steps));
    }
    return position;
}

// A mask is made once for each state, and so is the error if it cannot be made.
base::Result<std::shared_ptr<const TokenMask>> ConstrainedText::mask_at(Matcher::State state) {
    const auto known = masks_.find(state);
    if (known != masks_.end()) return known->second;
    matcher_->begin_count(limits_.mask_steps);
    TokenMask made = make_token_mask(*matcher_, state, *trie_);
    most_steps_ = std::max(most_steps_, matcher_->steps());
    const base::Status good = check();
    MaskResult result = good.ok() ? MaskResult(std::make_shared<const TokenMask>(std::move(made)))
                                  : MaskResult(good.error());
    masks_.emplace(state, result);
    return result;
}

base::Result<std::shared_ptr<const TokenMask>> ConstrainedText::allowed(Position position) {
    std::shared_ptr<const TokenMask> mask = after_end_;
    if (!position.ended) {
        matcher_->begin_count(limits_.mask_steps);
        const Matcher::State state = matcher_->stand_in(position.state, trie_->max_depth());
        TRY_VOID(check());
        TRY(mask, mask_at(state));
    }
    if (mask->none()) {
        return base::invalid(
            trie_->end_tokens().empty() && matcher_->accepts(position.state)
                ? "the text is complete, but the model has no end-of-text token to say so"
                : "no token of this model's vocabulary can go on as the grammar wants");
    }
    return mask;
}

base::Result<ConstrainedText::WayOutTokens> ConstrainedText::find_way_out(Matcher::State state) {
    if (trie_->end_tokens().empty()) return base::invalid("the model has no end-of-text token");
    matcher_->begin_count(limits_.mask_steps);
    const std::uint32_t bytes = matcher_->bytes_to_end(state);
    if (bytes == 0) return WayOutTokens{trie_->end_tokens().front(), 1};
    if (bytes > kMaxWayOutBytes) {
        return base::invalid(
            fmt::format("the shortest text that the grammar allows has more than "
                        "{} bytes",
                        kMaxWayOutBytes));
    }
    std::string text;
    while (text.size() < bytes && matcher_->trouble() == Matcher::Trouble::none) {
        const std::uint8_t byte = matcher_->byte_to_end(state);
        text.push_back(static_cast<char>(byte));
        state = matcher_->next(state, byte);
    }
    TRY_VOID(check());
    auto writing = trie_->shortest_writing(text);
    if (!writing) {
        return base::invalid(
            fmt::format("no tokens of this model's vocabulary write \"{}\", the shortest text that "
                        "the grammar allows",
                        text.substr(0, 100)));
    }
    ++writing->tokens;
    return *writing;
}

// It is found once for each state, and so is the error if it cannot be.
base::Result<ConstrainedText::WayOutTokens> ConstrainedText::way_out(Position position) {
    if (position.ended) return WayOutTokens{};
    const auto known = ways_out_.find(position.state);
    if (known != ways_out_.end()) return known->second;
    auto found = find_way_out(position.state);
    ways_out_.emplace(position.state, found);
    return found;
}

std::size_t ConstrainedText::memory_bytes() const {
    const std::size_t mask_bytes = static_cast<std::size_t>(trie_->vocab_size()) / 8 + 128;
    return matcher_->memory_bytes() + masks_.size() * mask_bytes + ways_out_.size() * 64;
}

void ConstrainedText::drop_if_large() {
    if (memory_bytes() < limits_.memory_bytes) return;
    matcher_ = std::make_unique<Matcher>(automaton_);
    masks_.clear();
    ways_out_.clear();
    ++generation_;
}

}  // namespace helix::text::grammar
