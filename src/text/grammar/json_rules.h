#pragma once

#include <string_view>

#include "text/grammar/grammar.h"
#include "text/grammar/notation.h"

// The parts of JSON, or of another notation for its values, as rules of a grammar.

namespace helix::text::grammar {

// Adds each rule when it is first asked for. White space is bounded, so that a model cannot write
// blanks for ever; numbers have at most 15 digits before and 16 after the point and 2 of an
// exponent, so that every reader takes them; a \u escape never leaves half a surrogate pair.
class JsonRules {
  public:
    // grammar must outlive the object.
    explicit JsonRules(Grammar& grammar, Notation notation = Notation::json)
        : grammar_(grammar), notation_(notation) {}
    Notation notation() const { return notation_; }

    Expr space();      // "", " ", or a line end and at most 20 blanks
    Expr character();  // one character of a string, perhaps escaped; not where strings are raw
    Expr string();
    Expr integer();
    Expr number();
    Expr boolean();
    Expr null();
    Expr name();  // of an object's member
    Expr value();
    Expr object();
    Expr array();
    // An expression over the characters of a string as one over what is written for them, and with
    // what stands at both ends of a string.
    Expr inside_string(const Expr& e) const;
    Expr quoted(Expr inside) const;

  private:
    RuleIndex define(RuleIndex& known, std::string_view name, Expr body);

    Grammar& grammar_;
    Notation notation_;
    RuleIndex space_ = -1;
    RuleIndex character_ = -1;
    RuleIndex string_ = -1;
    RuleIndex integer_ = -1;
    RuleIndex number_ = -1;
    RuleIndex value_ = -1;
    RuleIndex object_ = -1;
    RuleIndex array_ = -1;
};

// The most digits that integer() writes.
constexpr std::size_t kIntegerDigits = 15;

// A form like "[" item ("," item)* "]": open, first, then rest, close, with space between.
Expr bracketed(JsonRules& json, std::string_view open, Expr inside, std::string_view close);

// Turns an expression over the characters of a string into one over their JSON form, with quote,
// backslash and control characters escaped in the one usual way. Rule references stay as they are.
Expr inside_json_string(const Expr& e);

// Whole numbers low <= n <= high in decimal, without leading zeros. Both are written so, with a
// minus sign where they are below 0, and may have any number of digits.
Expr integers_between(std::string_view low, std::string_view high);

}  // namespace helix::text::grammar
