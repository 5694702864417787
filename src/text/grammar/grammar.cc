#include "text/grammar/grammar.h"

#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

void move_rules(Expr& e, RuleIndex by) {
    if (e.kind == Expr::Kind::rule) e.rule += by;
    for (Expr& item : e.items) move_rules(item, by);
}

}  // namespace

RuleIndex append(Grammar& grammar, Grammar other) {
    const auto by = static_cast<RuleIndex>(grammar.rules.size());
    for (Rule& added : other.rules) {
        move_rules(added.body, by);
        grammar.rules.push_back(std::move(added));
    }
    return other.root + by;
}

Expr literal(std::string_view text) {
    Expr e;
    e.kind = Expr::Kind::literal;
    e.text = text;
    return e;
}

Expr spelled(std::string_view text) {
    std::vector<Expr> out;
    for (const char32_t code : code_points(text)) out.push_back(chars({{code, code}}));
    return sequence(std::move(out));
}

Expr chars(CharSet set) {
    Expr e;
    e.kind = Expr::Kind::chars;
    e.chars = std::move(set);
    return e;
}

Expr one_of(std::string_view ranges) {
    const auto at = [ranges](std::size_t i) {
        return static_cast<char32_t>(static_cast<unsigned char>(ranges[i]));
    };
    std::vector<CodeRange> out;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (i + 2 < ranges.size() && ranges[i + 1] == '-') {
            out.push_back({at(i), at(i + 2)});
            i += 2;
        } else {
            out.push_back({at(i), at(i)});
        }
    }
    return chars(make_char_set(std::move(out)));
}

Expr sequence(std::vector<Expr> items) {
    Expr e;
    e.kind = Expr::Kind::sequence;
    e.items = std::move(items);
    return e;
}

Expr choice(std::vector<Expr> items) {
    Expr e;
    e.kind = Expr::Kind::choice;
    e.items = std::move(items);
    return e;
}

Expr repeat(Expr item, std::int32_t min, std::int32_t max) {
    Expr e;
    e.kind = Expr::Kind::repeat;
    e.items.push_back(std::move(item));
    e.min = min;
    e.max = max;
    return e;
}

Expr optional(Expr item) {
    return repeat(std::move(item), 0, 1);
}

Expr rule(RuleIndex index) {
    Expr e;
    e.kind = Expr::Kind::rule;
    e.rule = index;
    return e;
}

Expr graph(StateGraph states) {
    Expr e;
    e.kind = Expr::Kind::graph;
    e.graph = std::make_shared<const StateGraph>(std::move(states));
    return e;
}

Expr assertion(Assertion kind, std::vector<Expr> items) {
    Expr e;
    e.kind = Expr::Kind::assertion;
    e.assertion = kind;
    e.items = std::move(items);
    return e;
}

Expr nothing() {
    return chars({});
}

bool is_nothing(const Expr& e) {
    return e.kind == Expr::Kind::chars && e.chars.empty();
}

}  // namespace helix::text::grammar
