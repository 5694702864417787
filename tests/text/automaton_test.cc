// Compares the automaton with recognisers that are written differently: a memoised search over the
// expression for whole texts, and every text up to a length.

#include "text/grammar/automaton.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "text/grammar/gbnf_parser.h"
#include "text/grammar/matcher.h"
#include "text/utf8.h"

namespace helix::text::grammar::automaton_test {
namespace {

using Ends = std::set<std::size_t>;

// Where a match of an expression that begins at some place of the text may end.
class Recogniser {
  public:
    Recogniser(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

    bool matches() { return ends_of_rule(grammar_.root, 0).contains(text_.size()); }

  private:
    const Ends& ends_of_rule(RuleIndex rule, std::size_t at) {
        const auto key = std::pair(rule, at);
        const auto known = known_.find(key);
        if (known != known_.end()) return known->second;
        Ends ends = this->ends(grammar_.rules[static_cast<std::size_t>(rule)].body, at);
        return known_[key] = std::move(ends);
    }

    Ends ends(const Expr& e, std::size_t at) {
        switch (e.kind) {
            case Expr::Kind::literal:
                return text_.substr(at).starts_with(e.text) ? Ends{at + e.text.size()} : Ends{};
            case Expr::Kind::chars: {  // tests are in ASCII
                const bool in =
                    at < text_.size() && contains(e.chars, static_cast<unsigned char>(text_[at]));
                return in ? Ends{at + 1} : Ends{};
            }
            case Expr::Kind::sequence: {
                Ends now{at};
                for (const Expr& item : e.items) now = after(now, item);
                return now;
            }
            case Expr::Kind::choice: {
                Ends all;
                for (const Expr& item : e.items) all.merge(ends(item, at));
                return all;
            }
            case Expr::Kind::repeat:
                return ends_of_repeat(e, at);
            case Expr::Kind::rule:
                return ends_of_rule(e.rule, at);
            case Expr::Kind::graph:      // made of other sets (pattern_dfa_test.cc)
            case Expr::Kind::assertion:  // in patterns only
                break;
        }
        return {};
    }

    Ends after(const Ends& starts, const Expr& e) {
        Ends all;
        for (const std::size_t start : starts) all.merge(ends(e, start));
        return all;
    }

    Ends ends_of_repeat(const Expr& e, std::size_t at) {
        Ends now{at};
        for (std::int32_t i = 0; i < e.min; ++i) now = after(now, e.items[0]);
        Ends all = now;
        // More repetitions than the text has bytes add nothing.
        const auto most = static_cast<std::int32_t>(text_.size()) + 1;
        const std::int32_t more = e.max == kNoLimit ? most : std::min(most, e.max - e.min);
        for (std::int32_t i = 0; i < more; ++i) {
            now = after(now, e.items[0]);
            all.insert(now.begin(), now.end());
        }
        return all;
    }

    const Grammar& grammar_;
    std::string_view text_;
    std::map<std::pair<RuleIndex, std::size_t>, Ends> known_;
};

// All texts over the alphabet up to a length, shortest first.
void for_all_texts(std::string_view alphabet, std::size_t length,
                   const std::function<void(const std::string&)>& visit) {
    std::vector<std::string> last{""};
    visit("");
    for (std::size_t n = 1; n <= length; ++n) {
        std::vector<std::string> next;
        for (const std::string& text : last) {
            for (const char c : alphabet) next.push_back(text + c);
        }
        for (const std::string& text : next) visit(text);
        last = std::move(next);
    }
}

// Checks that every text is matched as by the recogniser, and is alive exactly if it begins some
// text that matches. The texts are as long as completions may need to be.
void compare(const Grammar& grammar, std::string_view alphabet, std::size_t length,
             std::size_t completion) {
    const auto automaton = Automaton::build(grammar);
    ASSERT_TRUE(automaton.ok()) << automaton.error().message;
    std::set<std::string> prefixes;
    for_all_texts(alphabet, length + completion, [&](const std::string& text) {
        if (!Recogniser(grammar, text).matches()) return;
        for (std::size_t n = 0; n <= text.size(); ++n) prefixes.insert(text.substr(0, n));
    });
    Matcher matcher(*automaton);
    for_all_texts(alphabet, length, [&](const std::string& text) {
        Matcher::State state = matcher.start();
        for (const char c : text) state = matcher.next(state, static_cast<std::uint8_t>(c));
        EXPECT_EQ(matcher.accepts(state), Recogniser(grammar, text).matches()) << text;
        EXPECT_EQ(state != Matcher::kDead, prefixes.contains(text)) << text;
    });
    EXPECT_EQ(matcher.trouble(), Matcher::Trouble::none);
}

TEST(Automaton, AgreesWithASearchOnChosenGrammars) {
    const std::vector<std::pair<const char*, std::size_t>> cases = {
        {"root ::= \"a\" root \"b\" | \"\"", 4},
        {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"", 3},
        {"root ::= s s\ns ::= \"a\" s \"b\" | \"c\"?", 4},
        {"root ::= (\"a\" | \"ab\")* (\"c\" | \"bc\")", 2},
        {"root ::= x{2,3} \"c\"\nx ::= \"a\" | \"b\" y\ny ::= \"\" | \"a\" y", 3},
        {"root ::= a \"b\"\na ::= \"a\" a | \"\"", 2},
        {"root ::= (\"a\"{0,2} \"b\"?){1,2} [bc]", 2},
        {"root ::= \"a\" dead | \"b\" [c]*\ndead ::= \"c\" dead", 1},
        {"root ::= list\nlist ::= \"a\" (\"b\" list)? (\"c\" list)?", 3},
    };
    for (const auto& [text, completion] : cases) {
        SCOPED_TRACE(text);
        const auto grammar = parse_gbnf(text);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        compare(*grammar, "abc", 4, completion);
    }
}

// own is the rule that the expression is part of. Rules after it may be called at once, others
// behind a letter, so that nothing is left-recursive.
Expr random_expr(base::Random& random, int depth, RuleIndex own, RuleIndex rules) {
    const auto part = [&] { return random_expr(random, depth - 1, own, rules); };
    switch (depth == 0 ? random.below(4) : random.below(8)) {
        case 0:
            return literal(random.below(2) == 0 ? "a" : "b");
        case 1:
            return one_of(random.below(2) == 0 ? "ab" : "a");
        case 2:
            return sequence(
                {literal(random.below(2) == 0 ? "a" : "b"),
                 rule(static_cast<RuleIndex>(random.below(static_cast<std::uint64_t>(rules))))});
        case 3:
            return own + 1 < rules ? rule(own + 1) : literal("ab");
        case 4:
            return sequence({part(), part()});
        case 5:
            return choice({part(), part()});
        case 6:
            return repeat(part(), static_cast<std::int32_t>(random.below(2)),
                          random.below(2) == 0 ? kNoLimit : 2);
        default:
            return optional(part());
    }
}

TEST(Automaton, AgreesWithASearchOnRandomGrammars) {
    int built = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        Grammar grammar;
        for (RuleIndex r = 0; r < 3; ++r) {
            grammar.add(std::string(1, static_cast<char>('r' + r)), random_expr(random, 3, r, 3));
        }
        const auto automaton = Automaton::build(grammar);
        if (!automaton.ok()) continue;  // no text matches
        ++built;
        Matcher matcher(*automaton);
        for_all_texts("ab", 6, [&](const std::string& text) {
            Matcher::State state = matcher.start();
            for (const char c : text) state = matcher.next(state, static_cast<std::uint8_t>(c));
            ASSERT_EQ(matcher.accepts(state), Recogniser(grammar, text).matches()) << text;
        });
    }
    EXPECT_GT(built, 40);
}

TEST(Automaton, CharacterClassesAreTheirUtf8) {
    const std::vector<std::vector<CodeRange>> sets = {
        {{0, 0x10FFFF}},
        {{0x7F, 0x80}},
        {{0x7FF, 0x800}},
        {{0xFFFF, 0x10000}},
        {{0xD7FF, 0xE000}},
        {{0x20AC, 0x20AC}},
        {{'a', 'f'}, {0xE9, 0x3FF}, {0x1F600, 0x1F64F}},
        {{0x10FFFE, 0x10FFFF}},
    };
    for (const auto& ranges : sets) {
        const CharSet set = make_char_set(ranges);
        Grammar grammar;
        grammar.add("root", chars(set));
        const auto automaton = Automaton::build(grammar);
        ASSERT_TRUE(automaton.ok());
        Matcher matcher(*automaton);
        for (char32_t code = 0; code <= kLastCodePoint; code += code < 0x900 ? 1 : 61) {
            if (code >= 0xD800 && code <= 0xDFFF) continue;
            std::string text;
            append_utf8(text, code);
            Matcher::State state = matcher.start();
            for (const char c : text) state = matcher.next(state, static_cast<std::uint8_t>(c));
            ASSERT_EQ(matcher.accepts(state), contains(set, code)) << std::uint32_t{code};
        }
        // Surrogates and overlong forms are nothing.
        for (const char* bad : {"\xED\xA0\x80", "\xC0\x80", "\xE0\x80\x80", "\xF4\x90\x80\x80"}) {
            Matcher::State state = matcher.start();
            for (const char* c = bad; *c != 0; ++c) {
                state = matcher.next(state, static_cast<std::uint8_t>(*c));
            }
            EXPECT_FALSE(matcher.accepts(state)) << bad;
        }
    }
}

TEST(Automaton, DeepRecursionKeepsStacksNotCalls) {
    const auto grammar = parse_gbnf("root ::= \"(\" root \")\" | \"x\"");
    ASSERT_TRUE(grammar.ok());
    const auto automaton = Automaton::build(*grammar);
    ASSERT_TRUE(automaton.ok());
    Matcher matcher(*automaton);
    constexpr int kDepth = 20'000;
    Matcher::State state = matcher.start();
    for (int i = 0; i < kDepth; ++i) state = matcher.next(state, '(');
    state = matcher.next(state, 'x');
    for (int i = 0; i < kDepth; ++i) {
        ASSERT_FALSE(matcher.accepts(state));
        state = matcher.next(state, ')');
    }
    EXPECT_TRUE(matcher.accepts(state));
    EXPECT_EQ(matcher.next(state, ')'), Matcher::kDead);
}

TEST(Automaton, RightRecursionNeedsNoStack) {
    const auto grammar = parse_gbnf("root ::= \"a\" root | \"b\"");
    const auto automaton = Automaton::build(*grammar);
    Matcher matcher(*automaton);
    const Matcher::State first = matcher.next(matcher.start(), 'a');
    EXPECT_EQ(matcher.next(first, 'a'), first);
}

// Each place has two callers, so the separate stacks after n letters would be 2^n.
TEST(Automaton, CallersOfOnePlaceShareAStack) {
    const auto grammar = parse_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"");
    const auto automaton = Automaton::build(*grammar);
    Matcher matcher(*automaton);
    matcher.begin_count();
    Matcher::State state = matcher.start();
    for (int i = 0; i < 1'000; ++i) state = matcher.next(state, 'a');
    EXPECT_LT(matcher.steps(), 100'000U);
    for (int i = 0; i < 1'000; ++i) {
        ASSERT_FALSE(matcher.accepts(state));
        state = matcher.next(state, i % 3 == 0 ? 'b' : 'c');
    }
    EXPECT_TRUE(matcher.accepts(state));
    EXPECT_EQ(matcher.next(state, 'b'), Matcher::kDead);
    EXPECT_EQ(matcher.trouble(), Matcher::Trouble::none);
}

std::string ambiguous_rules(int rules) {
    std::string text = "root ::= r0\n";
    for (int i = 0; i < rules; ++i) {
        text += "r" + std::to_string(i) + " ::= [^" + static_cast<char>('a' + i % 26) + "]*";
        text += i + 1 < rules ? " | r" + std::to_string(i + 1) + "\n" : "\n";
    }
    return text;
}

TEST(Automaton, TooManyWaysAreNoticed) {
    // Each place of the text may be where the middle was.
    std::string text = "root ::= \"\"";
    for (int i = 0; i < 400; ++i) text += " | [ab] root [ab]";
    const auto grammar = parse_gbnf(text);
    const auto automaton = Automaton::build(*grammar);
    Matcher matcher(*automaton);
    Matcher::State state = matcher.start();
    for (int i = 0; i < 300 && state != Matcher::kDead; ++i) state = matcher.next(state, 'a');
    EXPECT_EQ(matcher.trouble(), Matcher::Trouble::ways);
    EXPECT_EQ(state, Matcher::kDead);
    matcher.begin_count();
    EXPECT_EQ(matcher.trouble(), Matcher::Trouble::none);
    EXPECT_NE(matcher.next(matcher.start(), 'b'), Matcher::kDead);
}

// A count is the same whoever comes first, and whatever was worked out before.
TEST(Automaton, StepsAreCountedAsIfNothingWereKnown) {
    const auto grammar = parse_gbnf(ambiguous_rules(20));
    const auto automaton = Automaton::build(*grammar);
    const auto follow = [](Matcher& matcher, std::string_view text, std::uint64_t limit) {
        matcher.begin_count(limit);
        Matcher::State state = matcher.start();
        for (const char c : text) state = matcher.next(state, static_cast<std::uint8_t>(c));
        return matcher.steps();
    };
    Matcher fresh(*automaton);
    const std::uint64_t steps = follow(fresh, "hello there", Matcher::kNoStepLimit);
    EXPECT_GT(steps, 100U);
    Matcher used(*automaton);
    for (const char* text : {"hello", "there", "hallo", "hello there"}) {
        follow(used, text, Matcher::kNoStepLimit);
    }
    EXPECT_EQ(follow(used, "hello there", Matcher::kNoStepLimit), steps);
    for (Matcher* matcher : {&fresh, &used}) {
        follow(*matcher, "hello there", steps);
        EXPECT_EQ(matcher->trouble(), Matcher::Trouble::none);
        follow(*matcher, "hello there", steps - 1);
        EXPECT_EQ(matcher->trouble(), Matcher::Trouble::steps);
    }
    Matcher poor(*automaton);
    follow(poor, "hello there", steps - 1);
    EXPECT_EQ(poor.trouble(), Matcher::Trouble::steps);
    follow(poor, "hello there", steps);
    EXPECT_EQ(poor.trouble(), Matcher::Trouble::none);
}

}  // namespace
}  // namespace helix::text::grammar::automaton_test
