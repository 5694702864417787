#include <gtest/gtest.h>

#include <regex>

#include "base/effort.h"
#include "base/random.h"
#include "text/grammar/dfa.h"
#include "text/grammar/matcher.h"
#include "text/grammar/pattern_parser.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar::pattern_dfa_test {
namespace {

constexpr std::uint64_t kSteps = 2'000'000;

// All texts over "ab1-" with at most five characters.
const std::vector<std::string>& texts() {
    static const std::vector<std::string> kTexts = [] {
        std::vector<std::string> out{""};
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (out[i].size() == 5) break;
            for (const char c : {'a', 'b', '1', '-'}) out.push_back(out[i] + c);
        }
        return out;
    }();
    return kTexts;
}

struct Set {
    Alphabet alphabet;
    Dfa dfa;
};

Set set_of(const std::string& pattern, const std::string& beside = "[ab1-]") {
    const auto expr = parse_pattern(pattern);
    const auto other = parse_pattern(beside);
    CHECK(expr.ok() && other.ok());
    StepBudget budget(kSteps);
    std::vector<CharSet> used;
    append_char_sets(*expr, used);
    append_char_sets(*other, used);
    Alphabet alphabet(std::move(used), budget);
    auto dfa = Dfa::of(*expr, true, alphabet, budget);
    CHECK(dfa.has_value());
    return {std::move(alphabet), std::move(*dfa)};
}

// ahead: inside of a look-ahead, where the oracle knows nothing of what came before.
std::string random_pattern(base::Random& random, int depth, bool ahead = false) {
    static const std::vector<std::string> kAtoms = {"a",    "b",    "1",   "-",   ".",
                                                    "[ab]", "[^a]", "\\w", "\\d", "\\W"};
    switch (random.below(depth == 0 ? 1 : ahead ? 9 : 11)) {
        case 0:
        case 1:
            return kAtoms[random.below(kAtoms.size())];
        case 2:
        case 3:
            return random_pattern(random, depth - 1, ahead) +
                   random_pattern(random, depth - 1, ahead);
        case 4:
            return "(" + random_pattern(random, depth - 1, ahead) + "|" +
                   random_pattern(random, depth - 1, ahead) + ")";
        case 5:
            return "(?:" + random_pattern(random, depth - 1, ahead) + ")*";
        case 6:
            return "(?:" + random_pattern(random, depth - 1, ahead) + "){1,2}";
        case 7:
            return "(?=" + random_pattern(random, depth - 1, true) + ")";
        case 8:
            return "(?!" + random_pattern(random, depth - 1, true) + ")";
        case 9:
            return random.below(2) == 0 ? "^" : "$";
        default:
            return random.below(2) == 0 ? "\\b" : "\\B";
    }
}

// std::regex is the oracle: the same patterns are found in the same texts.
TEST(PatternDfa, FindsWhatAnotherReaderOfPatternsFinds) {
    base::Random random(7);
    std::size_t mixed = 0;
    constexpr int kPatterns = kSanitized ? 20 : 250;
    for (int i = 0; i < kPatterns; ++i) {
        const std::string pattern = random_pattern(random, 4);
        const std::regex oracle(pattern, std::regex::ECMAScript);
        const Set set = set_of(pattern);
        std::size_t found = 0;
        for (const std::string& text : texts()) {
            const bool expected = std::regex_search(text, oracle);
            found += expected ? 1U : 0U;
            ASSERT_EQ(set.dfa.matches(code_points(text), set.alphabet), expected)
                << pattern << " in " << text;
        }
        if (found > 0 && found < texts().size()) ++mixed;
    }
    EXPECT_GT(mixed, kPatterns * 2U / 5U);
}

TEST(PatternDfa, ComplementAndIntersectionAreExact) {
    base::Random random(11);
    for (int i = 0; i < 60; ++i) {
        const std::string one = random_pattern(random, 3);
        const std::string two = random_pattern(random, 3);
        const Set a = set_of(one, two);
        const Set b = set_of(two, one);
        StepBudget budget(kSteps);
        const auto both = Dfa::both(a.dfa, b.dfa.complement(), budget);
        ASSERT_TRUE(both.has_value());
        for (const std::string& text : texts()) {
            const auto points = code_points(text);
            EXPECT_EQ(both->matches(points, a.alphabet),
                      a.dfa.matches(points, a.alphabet) && !b.dfa.matches(points, a.alphabet))
                << one << " without " << two << ": " << text;
        }
    }
}

// Counted graphs with their stand-ins, read by a matcher.
TEST(PatternDfa, LengthsAreCounted) {
    for (const std::string pattern : {"^[ab]*$", "^(a|b1)*-?$", "^a[^1]*$", "1", "^(ab|1)+$"}) {
        const Set set = set_of(pattern);
        const std::regex oracle(pattern, std::regex::ECMAScript);
        for (const auto& [min, max] : std::vector<std::pair<std::int32_t, std::int32_t>>{
                 {0, 2}, {2, 3}, {1, kNoLimit}, {3, kNoLimit}, {0, 5}, {4, 4}, {0, 20}}) {
            auto states = to_state_graph(set.dfa, set.alphabet, min, max, 10'000);
            ASSERT_TRUE(states.has_value());
            Grammar grammar;
            grammar.root = grammar.add("root", graph(std::move(*states)));
            const auto automaton = Automaton::build(grammar);
            ASSERT_TRUE(automaton.ok()) << automaton.error().message;
            Matcher matcher(*automaton);
            for (const std::string& text : texts()) {
                Matcher::State state = matcher.start();
                for (const char byte : text) {
                    state = matcher.next(state, static_cast<std::uint8_t>(byte));
                    // A stand-in reads on as the state itself does.
                    const Matcher::State other = matcher.stand_in(state, 1);
                    ASSERT_EQ(matcher.accepts(other), matcher.accepts(state));
                    for (const char next : {'a', 'b', '1', '-', 'x'}) {
                        const auto code = static_cast<std::uint8_t>(next);
                        ASSERT_EQ(matcher.next(other, code) == Matcher::kDead,
                                  matcher.next(state, code) == Matcher::kDead);
                    }
                }
                const auto length = static_cast<std::int32_t>(text.size());
                const bool expected = std::regex_search(text, oracle) && length >= min &&
                                      (max == kNoLimit || length <= max);
                ASSERT_EQ(matcher.accepts(state), expected)
                    << pattern << " " << min << " to " << max << ": " << text;
            }
        }
    }
}

TEST(PatternDfa, CostlyOnesEndAtTheBudget) {
    const auto expr = parse_pattern("^(a|b)*a(a|b){40}$");
    ASSERT_TRUE(expr.ok());
    StepBudget budget(500'000);
    std::vector<CharSet> used;
    append_char_sets(*expr, used);
    const Alphabet alphabet(std::move(used), budget);
    EXPECT_FALSE(Dfa::of(*expr, true, alphabet, budget).has_value());
}

}  // namespace
}  // namespace helix::text::grammar::pattern_dfa_test
