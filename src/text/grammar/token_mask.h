#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_trie.h"

namespace helix::text::grammar {

// One bit for each token of the vocabulary.
class TokenMask {
  public:
    explicit TokenMask(std::int32_t vocab_size)
        : words_((static_cast<std::size_t>(vocab_size) + 63) / 64) {}
    void set(Token token) {
        const auto i = static_cast<std::size_t>(token);
        words_[i / 64] |= std::uint64_t{1} << (i % 64);
    }
    bool test(Token token) const {
        const auto i = static_cast<std::size_t>(token);
        return (words_[i / 64] >> (i % 64) & 1U) != 0;
    }
    bool none() const;
    std::size_t count() const;
    // The bits, the lowest token first.
    const std::vector<std::uint64_t>& words() const { return words_; }

  private:
    std::vector<std::uint64_t> words_;
};

// The tokens whose bytes keep state alive; where the text may end, the end tokens too. Means
// nothing when the matcher came into trouble.
TokenMask make_token_mask(Matcher& matcher, Matcher::State state, const TokenTrie& trie);

// What one grammar may use. Steps are the matcher's: the same on every machine, whatever is kept
// there.
struct MaskLimits {
    // Steps to find the tokens that may follow, or to follow one. A step takes some nanoseconds and
    // keeps at most some tens of bytes.
    std::uint64_t mask_steps = 4'000'000;
    // Steps to follow a text from its beginning.
    std::uint64_t text_steps = 64'000'000;
    // Memory that is kept from one mask to the next.
    std::size_t memory_bytes = std::size_t{64} << 20;
};

// One grammar over one vocabulary: where texts stand, and which tokens may follow there. Masks are
// kept by state, whatever text led there. For one thread at a time.
class ConstrainedText {
  public:
    // Where a text stands. Positions become stale when what is kept grows too large; what is asked
    // of a stale one is answered by following the text from its beginning.
    struct Position {
        Matcher::State state = Matcher::kDead;
        bool ended = false;       // an end token came
        std::uint64_t steps = 0;  // steps that following the text took
    };

    ConstrainedText(std::shared_ptr<const Automaton> automaton,
                    std::shared_ptr<const TokenTrie> trie,
                    std::shared_ptr<const Tokenizer> tokenizer, const MaskLimits& limits = {});

    Position start() const { return {matcher_->start(), false, 0}; }
    // Error invalid: the token may not follow, or a limit was hit, which is named.
    base::Result<Position> advance(Position position, Token token);
    // The tokens that may follow, of which there is at least one. Error invalid: nothing may
    // follow, because the vocabulary cannot write what the grammar wants, or a limit was hit, which
    // is named.
    base::Result<std::shared_ptr<const TokenMask>> allowed(Position position);

    // The fewest tokens that end the text, the end token among them, of which the first. From the
    // position behind that one, one less is needed. Error invalid: the vocabulary cannot write the
    // shortest text that is left, or a limit was hit, which is named.
    using WayOutTokens = TokenTrie::Writing;
    base::Result<WayOutTokens> way_out(Position position);

    // Rises when everything that is kept is dropped; positions from before are then stale.
    std::uint64_t generation() const { return generation_; }
    // To be called between texts, before positions are used.
    void drop_if_large();
    // About how much memory everything that is kept takes.
    std::size_t memory_bytes() const;
    // The steps that the costliest mask took.
    std::uint64_t most_steps() const { return most_steps_; }

  private:
    using MaskResult = base::Result<std::shared_ptr<const TokenMask>>;

    static constexpr std::uint32_t kMaxWayOutBytes = 100'000;

    base::Status check() const;
    base::Result<WayOutTokens> find_way_out(Matcher::State state);
    MaskResult mask_at(Matcher::State state);

    std::shared_ptr<const Automaton> automaton_;
    std::shared_ptr<const TokenTrie> trie_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    std::unique_ptr<Matcher> matcher_;
    std::unordered_map<Matcher::State, MaskResult> masks_;
    std::unordered_map<Matcher::State, base::Result<WayOutTokens>> ways_out_;
    std::shared_ptr<const TokenMask> after_end_;
    std::uint64_t generation_ = 0;
    std::uint64_t most_steps_ = 0;
    MaskLimits limits_;
};

}  // namespace helix::text::grammar
