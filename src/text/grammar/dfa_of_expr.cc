// A deterministic automaton of an expression with assertions.
//
// The expression becomes a graph of places. A thread is a place and what it still owes: for each
// look-ahead that it passed, a state of that look-ahead's own automaton over the rest of the text.
// A state of the result is the set of all threads; a thread whose debt cannot be paid is gone.

#include <algorithm>
#include <memory>
#include <tuple>

#include "base/check.h"
#include "text/grammar/dfa.h"

namespace helix::text::grammar {
namespace {

constexpr std::size_t kMaxPlaces = 100'000;

// Where the reading of an expression begins, as far as assertions can tell.
struct Before {
    bool at_start = true;
    bool after_word = false;  // the last character belongs to a word
    auto operator<=>(const Before&) const = default;
};

bool mentions_words(const Expr& e) {
    const bool here = e.kind == Expr::Kind::assertion && (e.assertion == Assertion::word_edge ||
                                                          e.assertion == Assertion::no_word_edge);
    return here || std::any_of(e.items.begin(), e.items.end(), mentions_words);
}

class DfaBuilder {
  public:
    DfaBuilder(const Alphabet& alphabet, StepBudget& budget)
        : alphabet_(alphabet), budget_(budget) {
        word_classes_.resize(alphabet.classes());
    }

    // rest: anything may follow. search: anything may come before, too.
    std::optional<Dfa> build(const Expr& e, bool search, bool rest, Before before) {
        for (const std::uint32_t c : alphabet_.classes_in(complement({}))) all_.push_back(c);
        const std::uint32_t first = place();
        const std::uint32_t from = place();
        const std::uint32_t to = place();
        end_ = place();
        join(first, from);
        if (search) places_[from].reads.push_back({all_, from});
        if (!add(e, from, to)) return {};
        if (search || rest) places_[to].reads.push_back({all_, to});
        join(to, end_);
        return determinize(first, before);
    }

  private:
    using Place = std::uint32_t;
    struct Reads {
        std::vector<std::uint32_t> classes;
        Place to = 0;
    };
    struct Check {
        const Expr* assertion = nullptr;
        Place to = 0;
    };
    struct PlaceInfo {
        std::vector<Reads> reads;
        std::vector<Place> empty;
        std::vector<Check> checks;
    };
    struct Debt {
        std::size_t dfa = 0;
        Dfa::State state = 0;
        auto operator<=>(const Debt&) const = default;
    };
    struct Thread {
        Place place = 0;
        std::vector<Debt> debts;  // ascending
        auto operator<=>(const Thread&) const = default;
    };
    struct Threads {
        std::vector<Thread> all;
        bool after_word = false;
        auto operator<=>(const Threads&) const = default;
    };

    Place place() {
        places_.emplace_back();
        return static_cast<Place>(places_.size() - 1);
    }
    void join(Place from, Place to) { places_[from].empty.push_back(to); }

    bool add(const Expr& e, Place from, Place to) {
        if (!budget_.spend(1) || places_.size() > kMaxPlaces) return false;
        switch (e.kind) {
            case Expr::Kind::literal:
                return add_literal(e.text, from, to);
            case Expr::Kind::chars:
                places_[from].reads.push_back({alphabet_.classes_in(e.chars), to});
                return true;
            case Expr::Kind::sequence:
                for (std::size_t i = 0; i < e.items.size(); ++i) {
                    const Place next = place();
                    if (!add(e.items[i], from, next)) return false;
                    from = next;
                }
                join(from, to);
                return true;
            case Expr::Kind::choice:
                return std::all_of(e.items.begin(), e.items.end(),
                                   [&](const Expr& item) { return add(item, from, to); });
            case Expr::Kind::repeat:
                return add_repeat(e, from, to);
            case Expr::Kind::assertion:
                if (mentions_words(e)) note_words();
                places_[from].checks.push_back({&e, to});
                return true;
            case Expr::Kind::rule:
            case Expr::Kind::graph:
                break;
        }
        CHECK(false);  // of patterns, which have none
    }

    // ASCII.
    bool add_literal(const std::string& text, Place from, Place to) {
        for (const char c : text) {
            const Place next = place();
            const auto code = static_cast<char32_t>(static_cast<unsigned char>(c));
            places_[from].reads.push_back({{alphabet_.class_of(code)}, next});
            from = next;
        }
        join(from, to);
        return true;
    }

    bool add_repeat(const Expr& e, Place from, Place to) {
        const Expr& item = e.items.front();
        for (std::int32_t i = 0; i < e.min || i < e.max; ++i) {
            if (i >= e.min) join(from, to);
            const Place next = place();
            if (!add(item, from, next)) return false;
            from = next;
        }
        if (e.max == kNoLimit) {
            const Place loop = place();
            join(from, loop);
            from = loop;
            if (!add(item, loop, loop)) return false;
        }
        join(from, to);
        return true;
    }

    void note_words() {
        looks_at_words_ = true;
        for (std::uint32_t c :
             alphabet_.classes_in({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}})) {
            word_classes_[c] = true;
        }
    }

    // ---- looking ahead

    // The automaton over the rest of the text of an assertion that is passed after `before`.
    // Nothing when the budget does not suffice.
    std::optional<std::size_t> rest_of(const Expr& assertion, Before before) {
        const auto key = std::tuple(&assertion, before);
        const auto known = rest_known_.find(key);
        if (known != rest_known_.end()) return known->second;
        std::optional<Dfa> made;
        switch (assertion.assertion) {
            case Assertion::start:
                made = before.at_start ? anything() : Dfa(alphabet_.classes());
                break;
            case Assertion::end:
                made = Dfa(alphabet_.classes());
                made->set_start(made->add_state(true));
                break;
            case Assertion::ahead:
            case Assertion::not_ahead: {
                DfaBuilder inside(alphabet_, budget_);
                made = inside.build(assertion.items.front(), false, true, before);
                if (made && assertion.assertion == Assertion::not_ahead) {
                    made = made->complement().smallest(budget_);
                }
                break;
            }
            case Assertion::word_edge:
                made = next_is_word(!before.after_word);
                break;
            case Assertion::no_word_edge:
                made = next_is_word(before.after_word);
                break;
        }
        if (!made) return {};
        rests_.push_back(std::move(*made));
        return rest_known_[key] = rests_.size() - 1;
    }

    Dfa anything() const {
        Dfa out(alphabet_.classes());
        const Dfa::State all = out.add_state(true);
        for (const std::uint32_t c : all_) out.set(all, c, all);
        out.set_start(all);
        return out;
    }

    Dfa next_is_word(bool word) const {
        Dfa out = anything();
        const Dfa::State all = out.start();
        const Dfa::State first = out.add_state(!word);
        for (const std::uint32_t c : all_) {
            if (word_classes_[c] == word) out.set(first, c, all);
        }
        out.set_start(first);
        return out;
    }

    // False when the debt cannot be paid.
    bool owe(std::vector<Debt>& debts, Debt debt) const {
        const Dfa& dfa = rests_[debt.dfa];
        if (debt.state == Dfa::kDead) return false;
        if (dfa.accepts_all(debt.state)) return true;
        const auto at = std::lower_bound(debts.begin(), debts.end(), debt);
        if (at == debts.end() || *at != debt) debts.insert(at, debt);
        return true;
    }

    // ---- sets of threads

    bool expand(Threads& threads, bool at_start) {
        std::vector<Thread> open = std::move(threads.all);
        std::map<Thread, bool> seen;
        const Before before{at_start, threads.after_word};
        while (!open.empty()) {
            Thread at = std::move(open.back());
            open.pop_back();
            if (!budget_.spend(1 + at.debts.size())) return false;
            const PlaceInfo& info = places_[at.place];
            if (!seen.emplace(at, true).second) continue;
            for (const Place to : info.empty) open.push_back({to, at.debts});
            for (const Check& check : info.checks) {
                const auto rest = rest_of(*check.assertion, before);
                if (!rest) return false;
                Thread passed{check.to, at.debts};
                if (owe(passed.debts, {*rest, rests_[*rest].start()})) {
                    open.push_back(std::move(passed));
                }
            }
        }
        threads.all.clear();
        for (const auto& [thread, unused] : seen) {
            if (thread.place == end_ || !places_[thread.place].reads.empty()) {
                threads.all.push_back(thread);
            }
        }
        return true;
    }

    bool accepts(const Threads& threads) const {
        return std::any_of(threads.all.begin(), threads.all.end(), [this](const Thread& thread) {
            return thread.place == end_ &&
                   std::all_of(thread.debts.begin(), thread.debts.end(), [this](const Debt& debt) {
                       return rests_[debt.dfa].accepts(debt.state);
                   });
        });
    }

    // What each thread becomes when it reads a character of the class.
    void read(const Thread& thread, std::uint32_t c, std::vector<Thread>& out) const {
        for (const Reads& reads : places_[thread.place].reads) {
            if (!std::binary_search(reads.classes.begin(), reads.classes.end(), c)) continue;
            Thread moved{reads.to, {}};
            const bool good =
                std::all_of(thread.debts.begin(), thread.debts.end(), [&](const Debt& debt) {
                    return owe(moved.debts, {debt.dfa, rests_[debt.dfa].next(debt.state, c)});
                });
            if (good) out.push_back(std::move(moved));
        }
    }

    std::optional<Dfa> determinize(Place first, Before before) {
        Dfa out(alphabet_.classes());
        std::map<Threads, Dfa::State> known;
        std::vector<const Threads*> open;
        Threads begin{{{first, {}}}, looks_at_words_ && before.after_word};
        if (!expand(begin, before.at_start)) return {};
        const auto state_of = [&](Threads threads) {
            if (threads.all.empty()) return Dfa::kDead;
            const auto [it, is_new] = known.emplace(std::move(threads), Dfa::kDead);
            if (is_new) {
                it->second = out.add_state(accepts(it->first));
                open.push_back(&it->first);
            }
            return it->second;
        };
        out.set_start(state_of(std::move(begin)));
        while (!open.empty()) {
            const Threads& at = *open.back();
            open.pop_back();
            const Dfa::State from = known.at(at);
            for (const std::uint32_t c : all_) {
                if (!budget_.spend(1 + at.all.size() / 4) || out.size() > Dfa::kMaxStates)
                    return {};
                Threads next{{}, looks_at_words_ && word_classes_[c]};
                for (const Thread& thread : at.all) read(thread, c, next.all);
                if (!expand(next, false)) return {};
                const Dfa::State to = state_of(std::move(next));
                out.set(from, c, to);
            }
        }
        return out.smallest(budget_);
    }

    const Alphabet& alphabet_;
    StepBudget& budget_;
    std::vector<std::uint32_t> all_;  // classes
    std::vector<bool> word_classes_;
    bool looks_at_words_ = false;
    std::vector<PlaceInfo> places_;
    Place end_ = 0;
    std::vector<Dfa> rests_;
    std::map<std::tuple<const Expr*, Before>, std::size_t> rest_known_;
};

}  // namespace

std::optional<Dfa> Dfa::of(const Expr& e, bool search, const Alphabet& alphabet,
                           StepBudget& budget) {
    return DfaBuilder(alphabet, budget).build(e, search, false, {});
}

}  // namespace helix::text::grammar
