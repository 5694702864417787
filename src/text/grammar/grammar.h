#pragma once

#include <cstdint>
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

struct Expr {
    enum class Kind : std::uint8_t { literal, chars, sequence, choice, repeat, rule };
    Kind kind = Kind::sequence;
    std::string text;         // literal: UTF-8
    CharSet chars;            // chars: one of these; none = nothing matches
    std::vector<Expr> items;  // sequence (empty: the empty text), choice; repeat: what is repeated
    std::int32_t min = 0;     // repeat
    std::int32_t max = kNoLimit;
    RuleIndex rule = -1;
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

Expr literal(std::string_view text);
Expr chars(CharSet set);
// One of some ASCII characters and ranges, written as in a class: "a-z_".
Expr one_of(std::string_view ranges);
Expr sequence(std::vector<Expr> items);
Expr choice(std::vector<Expr> items);
Expr repeat(Expr item, std::int32_t min, std::int32_t max = kNoLimit);
Expr optional(Expr item);
Expr rule(RuleIndex index);

}  // namespace helix::text::grammar
