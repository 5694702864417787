#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"

namespace helix::text::grammar {

using ByteSet = std::bitset<256>;

// Runs an automaton byte by byte. A state is the set of all ways to read the text so far, each a
// node and a stack of return nodes; equal stacks and equal sets are kept once, and each step from a
// state is worked out once, so that most steps are one look-up. One thread at a time.
class Matcher {
  public:
    using State = std::uint32_t;
    static constexpr State kDead = 0;  // no text that begins so matches
    // Ways to read one text, in a state.
    static constexpr std::size_t kMaxWays = 20'000;

    explicit Matcher(std::shared_ptr<const Automaton> automaton);

    State start() const { return start_; }
    State next(State state, std::uint8_t byte) {
        const std::size_t at = state * classes_ + class_of_[byte];
        return transitions_[at] != kUnknown ? transitions_[at] : step(state, byte);
    }
    // The text may end here.
    bool accepts(State state) const { return states_[state].accepts; }
    // The bytes that lead from the state to itself.
    const ByteSet& loops(State state);
    // A state that accepts if this one does and over at most so many more bytes lives on with the
    // same texts: one for all that differ only in counters further from their ends than that.
    State stand_in(State state, std::size_t bytes);

    // Some state had more than kMaxWays: what was said since is not to be relied on.
    bool overflowed() const { return overflowed_; }
    // Of everything kept, about.
    std::size_t memory_bytes() const { return memory_bytes_; }

  private:
    using StackIndex = std::uint32_t;
    static constexpr StackIndex kBottom = 0;
    static constexpr State kUnknown = 0xFFFFFFFF;
    // Stand-ins are kept for 1, 2, 4 ... bytes.
    static constexpr std::size_t kHorizons = 8;

    struct Frame {
        NodeIndex node = 0;
        StackIndex below = kBottom;
    };
    struct Way {
        NodeIndex node = 0;
        StackIndex stack = kBottom;
        auto operator<=>(const Way&) const = default;
    };
    struct StateInfo {
        std::vector<Way> ways;  // ascending; only those at nodes that read a byte
        bool accepts = false;
        std::unique_ptr<ByteSet> loops = nullptr;                           // once asked for
        std::unique_ptr<std::array<State, kHorizons>> stand_ins = nullptr;  // once asked for
    };
    struct Hash {
        std::size_t operator()(const Way& way) const;
        std::size_t operator()(const std::vector<Way>& ways) const;
    };

    State step(State state, std::uint8_t byte);
    // Adds a way and all that follow from it without reading.
    void open(Way way);
    State close();
    StackIndex push(StackIndex below, NodeIndex node);
    StackIndex stack_stand_in(StackIndex stack, std::int32_t bytes);

    std::shared_ptr<const Automaton> automaton_;
    std::size_t classes_;
    std::array<std::uint8_t, 256> class_of_{};
    std::vector<State> transitions_;  // [states, classes]
    std::vector<StateInfo> states_;
    std::vector<Frame> stacks_{{}};                       // 0: the bottom
    std::unordered_map<Way, StackIndex, Hash> stack_of_;  // by node and stack below
    // By ways; twice the same ways may differ in accepts.
    std::unordered_multimap<std::size_t, State> state_of_;
    State start_ = kDead;
    bool overflowed_ = false;
    std::size_t memory_bytes_ = 0;

    // The state that is being made.
    std::vector<Way> open_ways_;
    std::unordered_map<Way, bool, Hash> seen_;
    std::vector<Way> ways_;
    bool accepts_ = false;
};

}  // namespace helix::text::grammar
