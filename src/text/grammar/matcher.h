#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/way_out.h"
#include "text/grammar/way_set.h"

namespace helix::text::grammar {

using ByteSet = std::bitset<256>;

// Runs an automaton byte by byte. A state is the set of all ways to read the text so far, each a
// node and what may follow when its rule has ended. What is called at one place of the text is
// called once, however many callers wait for it: they are one stack set. So a state has at most as
// many ways as nodes times places, where separate stacks would double with each choice. Equal sets
// and equal states are kept once, and each step from a state is worked out once, so that most steps
// are one look-up. One thread at a time.
//
// Work is counted in steps: about one for each way, edge and frame that is looked at, and some for
// each state that is reached. A count says what a matcher that knows nothing would have to do: it
// is the same whatever was worked out before, so whoever ends at a limit ends there everywhere.
class Matcher {
  public:
    using State = std::uint32_t;
    static constexpr State kDead = 0;  // no text that begins so matches
    // The most ways to read a text that a state may have.
    static constexpr std::size_t kMaxWays = 20'000;
    static constexpr std::uint64_t kNoStepLimit = std::numeric_limits<std::uint64_t>::max();

    enum class Trouble : std::uint8_t { none, ways, steps };

    explicit Matcher(std::shared_ptr<const Automaton> automaton);

    // Begins a count, and forgets the trouble of the last. A step that is used again within one
    // count is counted once.
    void begin_count(std::uint64_t max_steps = kNoStepLimit);
    // Steps used since begin_count().
    std::uint64_t steps() const { return steps_; }
    // Whether since begin_count() some state had more than kMaxWays, or the steps ran out. Every
    // answer from there on was kDead and means nothing; nothing wrong is kept.
    Trouble trouble() const { return trouble_; }

    State start() const { return start_; }
    State next(State state, std::uint8_t byte) {
        const std::size_t at = state * classes_ + class_of_[byte];
        const Transition& known = transitions_[at];
        return known.counted_in == count_ ? known.target : take(state, byte);
    }
    // Whether the text may end here.
    bool accepts(State state) const { return states_[state].accepts; }
    // Whether each of these bytes, of which there is at least one, leads from the state to itself.
    bool stays(State state, const ByteSet& bytes);
    // A state that accepts if this one does, and that lives on with the same texts over at most
    // this many more bytes. States that differ only in counters further from their ends than that
    // have the same one.
    State stand_in(State state, std::size_t bytes);

    // The shortest way out of a state: the fewest bytes after which the text may end, and the first
    // of them. Of several shortest texts it is the one with the least bytes first, so the way out
    // goes on the same from the state behind that byte.
    std::uint32_t bytes_to_end(State state);  // WayOut::kNone for kDead
    std::uint8_t byte_to_end(State state);    // for a state with bytes_to_end() > 0

    // About how much memory everything that is kept takes.
    std::size_t memory_bytes() const { return memory_bytes_; }

  private:
    static constexpr StackSet kBottom = 0;
    static constexpr State kUnknown = 0xFFFFFFFF;
    // Stand-ins are kept for 1, 2, 4 ... bytes.
    static constexpr std::size_t kHorizons = 8;

    struct Transition {
        State target = kUnknown;
        std::uint32_t counted_in = 0;  // the last count that it was part of
    };
    struct StandIn {
        Transition to;
        std::uint32_t steps = 0;
    };
    struct StateInfo {
        std::vector<Way> ways;  // ascending; only those at nodes that read a byte
        bool accepts = false;
        std::uint32_t loops_counted_in = 0;
        std::unique_ptr<ByteSet> loops = nullptr;                             // once asked for
        std::unique_ptr<std::array<StandIn, kHorizons>> stand_ins = nullptr;  // once asked for
    };
    struct FrameRange {
        std::size_t begin = 0;
        std::size_t size = 0;
    };

    State take(State state, std::uint8_t byte);
    bool work_out(State state, std::uint8_t byte, Transition& to, std::uint32_t& steps);
    bool charge(std::uint64_t steps);
    const ByteSet& loops(State state);

    // A state is made by adding ways and then closing them under all that follows without reading.
    bool add(Way way);
    bool add_call(const Automaton::Call& call, StackSet stack);
    bool pop(StackSet stack);
    bool expand();
    bool close(State& made);
    State intern_state(std::vector<Way> ways, bool accepts);
    // The stack set of frames_, which is sorted and made unique.
    StackSet intern_frames();
    std::span<const Way> frames(StackSet stack) const {
        return std::span(frame_pool_).subspan(stacks_[stack].begin, stacks_[stack].size);
    }
    StackSet stack_stand_in(StackSet stack, std::size_t horizon);
    std::uint64_t stand_in_steps(State state) const;
    const WayOut& way_out();
    std::uint32_t bytes_to_end(const Way& way);
    std::uint32_t stack_bytes_to_end(StackSet stack);

    std::shared_ptr<const Automaton> automaton_;
    std::size_t classes_;
    std::array<std::uint8_t, 256> class_of_{};
    std::vector<Transition> transitions_;          // [states, classes]
    std::vector<std::uint32_t> transition_steps_;  // the same
    std::vector<StateInfo> states_;
    // States by a hash of their ways; two states with the same ways may differ in accepts.
    std::unordered_multimap<std::size_t, State> state_of_;
    State start_ = kDead;

    // The frames of all stack sets. A frame is a way: where its caller goes on, and what may follow
    // that. The bottom frame is {kNoReturn, kBottom}: the text ends. Sets refer only to sets that
    // were made before them.
    std::vector<Way> frame_pool_;
    std::vector<FrameRange> stacks_;
    std::unordered_multimap<std::size_t, StackSet> stack_of_;
    std::array<std::unordered_map<StackSet, StackSet>, kHorizons> stack_stand_ins_;

    std::unique_ptr<WayOut> way_out_;                // once asked for
    std::vector<std::uint32_t> stack_bytes_to_end_;  // of the first stacks

    std::uint32_t count_ = 1;
    std::uint64_t steps_ = 0;
    std::uint64_t max_steps_ = kNoStepLimit;
    Trouble trouble_ = Trouble::none;
    std::size_t memory_bytes_ = 0;

    // The state that is being made.
    std::vector<Way> open_ways_;
    WaySet seen_;
    std::vector<Way> ways_;
    bool accepts_ = false;
    std::vector<std::vector<Way>> callers_;  // frames that wait for a rule, by its rank
    std::vector<std::uint32_t> called_;      // ranks with callers; a heap, lowest first
    std::vector<Way> frames_;
};

}  // namespace helix::text::grammar
