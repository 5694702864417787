#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/char_set.h"

// What a text may be: rules made of literals, characters, sequences, choices and repetitions. Every
// source (GBNF, JSON schema, patterns) is read into this form, and an Automaton is built from it.

namespace helix::text::grammar {

using RuleIndex = std::int32_t;

constexpr std::int32_t kNoLimit = -1;
constexpr std::int32_t kMaxRepeats = 10'000;  // that a repetition may name

struct StateGraph;

// What must hold at a place of the text without reading anything. Only patterns have these
// (pattern_parser.h); a Dfa takes their place before a grammar is made of them.
enum class Assertion : std::uint8_t { start, end, ahead, not_ahead, word_edge, no_word_edge };

struct Expr {
    enum class Kind : std::uint8_t {
        literal,
        chars,
        sequence,
        choice,
        repeat,
        rule,
        graph,
        assertion
    };
    Kind kind = Kind::sequence;
    Assertion assertion = Assertion::start;
    std::string text;  // literal: UTF-8
    CharSet chars;     // chars: one of these; none = nothing matches
    // sequence (empty: the empty text), choice; repeat: what is repeated; assertion: what is ahead
    std::vector<Expr> items;
    std::shared_ptr<const StateGraph> graph;
    std::int32_t min = 0;  // repeat
    std::int32_t max = kNoLimit;
    RuleIndex rule = -1;
};

// A text read from state to state, the first being where it begins.
struct StateGraph {
    struct Edge {
        std::size_t label = 0;
        std::size_t target = 0;
    };
    struct State {
        std::vector<Edge> edges;
        bool accepts = false;
        // Over at most `within` more bytes it reads what stand_in reads (Automaton::StandIn).
        std::size_t stand_in = 0;
        std::int32_t within = 0;
    };
    std::vector<Expr> labels;  // what edges read
    std::vector<State> states;
};

struct Rule {
    std::string name;
    Expr body;
};

struct Grammar {
    std::vector<Rule> rules;
    RuleIndex root = 0;

    RuleIndex add(std::string name, Expr body = {}) {
        rules.push_back({std::move(name), std::move(body)});
        return static_cast<RuleIndex>(rules.size()) - 1;
    }
    Expr& body(RuleIndex rule) { return rules[static_cast<std::size_t>(rule)].body; }
};

// Adds the rules of another grammar; returns its root.
RuleIndex append(Grammar& grammar, Grammar other);

Expr literal(std::string_view text);
// The same text by its characters, as a Dfa and what changes how characters are written take it.
Expr spelled(std::string_view text);
Expr chars(CharSet set);
// One of some ASCII characters and ranges, written as in a class: "a-z_".
Expr one_of(std::string_view ranges);
Expr sequence(std::vector<Expr> items);
Expr choice(std::vector<Expr> items);
Expr repeat(Expr item, std::int32_t min, std::int32_t max = kNoLimit);
Expr optional(Expr item);
Expr rule(RuleIndex index);
Expr graph(StateGraph states);
Expr assertion(Assertion kind, std::vector<Expr> items = {});
// Matches no text.
Expr nothing();
bool is_nothing(const Expr& e);

}  // namespace helix::text::grammar
