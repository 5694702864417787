#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

// Regular sets of texts as deterministic automata: what several patterns, formats and lengths leave
// together, what a pattern leaves out, and whether a text belongs.

namespace helix::text::grammar {

// Steps that may still be taken. Whoever works on a schema spends from the schema's.
class StepBudget {
  public:
    explicit StepBudget(std::uint64_t steps) : left_(steps) {}
    // False when they have run out, now or before.
    bool spend(std::uint64_t steps) {
        left_ = steps > left_ ? 0 : left_ - steps;
        return left_ > 0;
    }
    bool spent() const { return left_ == 0; }

  private:
    std::uint64_t left_;
};

// Code points in classes, such that none of some sets tells two of one class apart. Surrogates are
// in class 0, which no text has.
class Alphabet {
  public:
    Alphabet(std::vector<CharSet> sets, StepBudget& budget);

    std::size_t classes() const { return classes_; }
    std::uint32_t class_of(char32_t code) const;
    // The classes of a set that the alphabet was made of, or of a union of such sets.
    std::vector<std::uint32_t> classes_in(const CharSet& set) const;
    CharSet characters(const std::vector<std::uint32_t>& classes) const;

  private:
    std::vector<char32_t> begins_;         // of intervals, ascending from 0
    std::vector<std::uint32_t> class_of_;  // by interval
    std::size_t classes_ = 1;
};

// The character sets in an expression, which has no rules.
void append_char_sets(const Expr& e, std::vector<CharSet>& out);

// State 0 is dead: it accepts nothing and leads nowhere else. Reading begins at start().
class Dfa {
  public:
    using State = std::uint32_t;
    static constexpr State kDead = 0;
    static constexpr std::size_t kMaxStates = 20'000;

    // The texts that an expression matches as a whole, or (search) in which it is found; it may
    // have assertions and no rules. Nothing when the budget or kMaxStates does not suffice.
    static std::optional<Dfa> of(const Expr& e, bool search, const Alphabet& alphabet,
                                 StepBudget& budget);
    // Texts that are in both.
    static std::optional<Dfa> both(const Dfa& a, const Dfa& b, StepBudget& budget);

    // All texts that are not in this one.
    Dfa complement() const;
    // The same texts with as few states as possible, none of which is without an end but kDead.
    std::optional<Dfa> smallest(StepBudget& budget) const;

    State start() const { return start_; }
    std::size_t size() const { return accepts_.size(); }
    std::size_t classes() const { return classes_; }
    State next(State state, std::uint32_t of_class) const {
        return next_[state * classes_ + of_class];
    }
    bool accepts(State state) const { return accepts_[state]; }
    bool matches(std::u32string_view text, const Alphabet& alphabet) const;
    // How many characters at least lead from each state to an end; kNever from those without one.
    std::vector<std::uint32_t> shortest_ends() const;
    static constexpr std::uint32_t kNever = 0xFFFFFFFF;
    // Whether there is no text; to be asked of smallest() ones.
    bool empty() const { return start_ == kDead; }
    // Whether every text is accepted from here; to be asked of smallest() ones.
    bool accepts_all(State state) const;

    explicit Dfa(std::size_t classes) : classes_(classes) { add_state(false); }
    State add_state(bool accepts);
    void set(State from, std::uint32_t of_class, State to) {
        next_[from * classes_ + of_class] = to;
    }
    void set_start(State start) { start_ = start; }

  private:
    std::size_t classes_;
    State start_ = kDead;
    std::vector<State> next_;
    std::vector<bool> accepts_;
};

// The texts of a dfa with min to max characters (kNoLimit: any number) as a graph. Nothing when it
// would have more than max_states.
std::optional<StateGraph> to_state_graph(const Dfa& dfa, const Alphabet& alphabet, std::int32_t min,
                                         std::int32_t max, std::size_t max_states);

}  // namespace helix::text::grammar
