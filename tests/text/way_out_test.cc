#include "text/grammar/way_out.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "grammar_helpers.h"
#include "schema_checker.h"

namespace helix::text::grammar::way_out_test {
namespace {

using test::kDemo;
using test::Kind;
using test::vocabularies;

// The fewest bytes to an end, by trying all texts breadth first.
std::optional<std::uint32_t> tried_bytes(Matcher& matcher, Matcher::State state,
                                         std::uint32_t most) {
    std::set<Matcher::State> layer{state};
    for (std::uint32_t bytes = 0; bytes <= most; ++bytes) {
        std::set<Matcher::State> next;
        for (const Matcher::State at : layer) {
            if (matcher.accepts(at)) return bytes;
            for (int byte = 0; byte < 256; ++byte) {
                next.insert(matcher.next(at, static_cast<std::uint8_t>(byte)));
            }
        }
        next.erase(Matcher::kDead);
        layer = std::move(next);
    }
    return std::nullopt;
}

std::vector<spec::OutputGrammar> grammars() {
    auto all = test::sample_grammars();
    all.push_back({Kind::gbnf, "root ::= a | b\na ::= \"x\" a \"y\" | \"zzz\"\nb ::= \"xx\" a"});
    all.push_back({Kind::gbnf, "root ::= [a-c]{3,9} (\"d\" root)? \"e\""});
    return all;
}

TEST(WayOut, IsTheShortestTextThatTryingAllFinds) {
    constexpr std::uint32_t kMost = 6;
    int compared = 0;
    for (const spec::OutputGrammar& grammar : grammars()) {
        const auto automaton = compile(grammar);
        ASSERT_TRUE(automaton.ok()) << grammar.text;
        Matcher matcher(*automaton);
        base::Random random(7);
        for (int text = 0; text < 20; ++text) {
            Matcher::State state = matcher.start();
            for (int i = 0; i < 60 && state != Matcher::kDead; ++i) {
                const auto byte = static_cast<std::uint8_t>(random.below(128));
                const Matcher::State next = matcher.next(state, byte);
                if (next != Matcher::kDead) state = next;
            }
            const auto tried = tried_bytes(matcher, state, kMost);
            const std::uint32_t said = matcher.bytes_to_end(state);
            if (tried) ++compared;
            ASSERT_EQ(tried.value_or(kMost + 1), std::min(said, kMost + 1)) << grammar.text;
        }
    }
    EXPECT_GT(compared, 50);
}

TEST(WayOut, EachByteOfItIsOneNearerToTheEnd) {
    for (const spec::OutputGrammar& grammar : grammars()) {
        Matcher matcher(*compile(grammar));
        Matcher::State state = matcher.start();
        for (std::uint32_t left = matcher.bytes_to_end(state); left > 0; --left) {
            ASSERT_EQ(matcher.bytes_to_end(state), left) << grammar.text;
            state = matcher.next(state, matcher.byte_to_end(state));
            ASSERT_NE(state, Matcher::kDead) << grammar.text;
        }
        EXPECT_TRUE(matcher.accepts(state)) << grammar.text;
    }
    Matcher matcher(*compile(grammars().front()));
    EXPECT_EQ(matcher.bytes_to_end(Matcher::kDead), WayOut::kNone);
}

// Writes a text at random, as a worker does for a model that knows nothing.
std::string write_within(GrammarMasks& masks, const Tokenizer& tokenizer,
                         const spec::OutputGrammar& grammar, std::uint64_t seed) {
    base::Random random(seed);
    std::vector<Token> output;
    std::string text;
    for (std::int32_t i = 0; i < grammar.within_tokens; ++i) {
        const auto mask = masks.allowed(grammar, seed, output);
        if (!mask.ok()) return "allowed: " + mask.error().message;
        std::vector<Token> allowed;
        for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
            if ((*mask)->test(token)) allowed.push_back(token);
        }
        Token token = allowed[random.below(allowed.size())];
        const auto other = masks.instead_of(token, grammar, seed, output);
        if (!other.ok()) return "instead_of: " + other.error().message;
        if (*other) {
            token = **other;
            EXPECT_TRUE((*mask)->test(token));
        }
        output.push_back(token);
        if (tokenizer.is_end_of_generation(token)) return text;
        text += tokenizer.token_bytes(token);
    }
    return "not ended: " + text;
}

TEST(WayOut, EveryTextEndsWithinItsTokens) {
    bool ran = false;
    for (const std::string& path : vocabularies()) {
        const auto tokenizer = test::open_tokenizer(path);
        if (tokenizer == nullptr) continue;
        ran = true;
        GrammarMasks masks(tokenizer);
        for (spec::OutputGrammar grammar : test::sample_grammars()) {
            const auto fewest = masks.fewest_tokens(grammar);
            ASSERT_TRUE(fewest.ok()) << fewest.error().message << "\n" << grammar.text;
            for (const std::size_t more : {0U, 1U, 5U, 40U}) {
                grammar.within_tokens = static_cast<std::int32_t>(*fewest + more);
                for (std::uint64_t seed = 1; seed <= 3; ++seed) {
                    const std::string text =
                        write_within(masks, *tokenizer, grammar, seed + more * 8);
                    ASSERT_TRUE(test::matches(*compile(grammar), text))
                        << path << "\n"
                        << grammar.text << "\nwithin " << grammar.within_tokens << " tokens, seed "
                        << seed << ": " << text;
                }
            }
        }
    }
    ASSERT_TRUE(ran);
}

TEST(WayOut, TooFewTokensAreAnErrorThatNamesBoth) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    spec::OutputGrammar grammar = {Kind::gbnf, "root ::= \"zq\"{8}"};
    const auto fewest = masks.fewest_tokens(grammar);
    ASSERT_TRUE(fewest.ok());
    grammar.within_tokens = static_cast<std::int32_t>(*fewest) - 1;
    const auto mask = masks.allowed(grammar, 1, {});
    ASSERT_TRUE(mask.ok());
    Token first = 0;
    while (!(*mask)->test(first)) ++first;
    const auto other = masks.instead_of(first, grammar, 1, {});
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find(std::to_string(*fewest)), std::string::npos)
        << other.error().message;
}

}  // namespace
}  // namespace helix::text::grammar::way_out_test
