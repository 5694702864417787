// What a grammar says begins behind a thought, which ends when it has to.

#include "text/grammar/thought_grammar.h"

#include <gtest/gtest.h>

#include "grammar_helpers.h"
#include "text/output/answer_parser.h"

namespace helix::text::thought_grammar_test {
namespace {

using grammar::GrammarMasks;
using spec::OutputGrammar;
using spec::Thought;
using Kind = OutputGrammar::Kind;
namespace test = grammar::test;

const Thought kInside = {"", "</think>", {"<call>", "</c"}, -1};
const Thought kMayOpen = {"<think>", "</think>", {}, -1};

OutputGrammar yes_or_no(const Thought& thought) {
    return {Kind::gbnf, "root ::= \"yes\" | \"no\"", 0, thought};
}

bool follows(const OutputGrammar& grammar, std::string_view text) {
    const auto automaton = grammar::compile(grammar);
    CHECK(automaton.ok());
    return test::matches(*automaton, text);
}

TEST(ThoughtGrammar, TheAnswerComesBehindTheThought) {
    for (const char* good : {"</think>yes", "hm </thi </think>yes", "</</think>no",
                             "\xC3\xA9\xE2\x82\xAC</think>\n\nno", "yes</think> yes"}) {
        EXPECT_TRUE(follows(yes_or_no(kInside), good)) << good;
    }
    for (const char* bad : {"yes", "x</think>", "x</think>y</think>yes", "a<call>b</think>yes",
                            "a</c</think>yes", "</think>\n\n\nyes", "</think>yes "}) {
        EXPECT_FALSE(follows(yes_or_no(kInside), bad)) << bad;
    }
    for (const char* good : {"yes", "<think>x</think>yes", "<think></think>\nno"}) {
        EXPECT_TRUE(follows(yes_or_no(kMayOpen), good)) << good;
    }
    for (const char* bad : {"x</think>yes", "<think>yes", "<think>a</think><think>b</think>no"}) {
        EXPECT_FALSE(follows(yes_or_no(kMayOpen), bad)) << bad;
    }
}

// What kInside says, without a graph.
bool comes_behind(std::string_view text) {
    const std::size_t end = text.find("</think>");
    if (end == std::string_view::npos) return false;
    for (const std::string& mark : kInside.never) {
        if (text.substr(0, end + 7).find(mark) != std::string_view::npos) return false;
    }
    const std::string_view answer = text.substr(end + 8);
    return answer == "yes" || answer == "\nno";
}

TEST(ThoughtGrammar, RandomPiecesOfMarksAreReadAsSearchingDoes) {
    const auto automaton = grammar::compile(yes_or_no(kInside));
    ASSERT_TRUE(automaton.ok());
    grammar::Matcher matcher(*automaton);
    const std::vector<std::string> pieces = {"<",  "/",     "</",      "think>",   "</think>", "c",
                                             "</", "call>", "</think", "</think>", "x",        ">"};
    base::Random random(11);
    int good = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string text;
        for (std::uint64_t n = random.below(7); n > 0; --n) text += pieces[random.below(12)];
        text += random.below(2) == 0 ? "</think>yes" : "</think>\nno";
        const bool expected = comes_behind(text);
        good += expected ? 1 : 0;
        ASSERT_EQ(test::matches(matcher, text), expected) << text;
    }
    EXPECT_GT(good, 400);
    EXPECT_LT(good, 3600);
}

struct Drawn {
    std::string text;
    std::size_t tokens = 0;
    bool ended = false;
};

// Tokens at random as the grammar lets them be, at most so many.
Drawn draw(GrammarMasks& masks, const Tokenizer& tokenizer, const OutputGrammar& grammar,
           std::uint64_t seed, std::size_t most) {
    base::Random random(seed);
    std::vector<Token> output;
    Drawn drawn;
    while (output.size() < most && !drawn.ended) {
        const auto mask = masks.allowed(grammar, seed, output);
        CHECK(mask.ok());
        std::vector<Token> allowed;
        for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
            const bool may = *mask == nullptr ? !tokenizer.is_special(token) : (*mask)->test(token);
            if (may) allowed.push_back(token);
        }
        Token token = allowed[random.below(allowed.size())];
        if (grammar.replaces_tokens()) {
            const auto other = masks.instead_of(token, grammar, seed, output);
            CHECK(other.ok());
            if (*other) token = **other;
        }
        drawn.ended = tokenizer.is_end_of_generation(token);
        if (!drawn.ended) drawn.text += tokenizer.token_bytes(token);
        output.push_back(token);
    }
    drawn.tokens = output.size();
    return drawn;
}

TEST(ThoughtGrammar, AThoughtThatGoesOnIsClosedAfterItsTokens) {
    constexpr std::size_t kCloseTokens = 8;  // at most, as a byte each
    int tried = 0;
    for (const std::string& path : test::vocabularies()) {
        const auto tokenizer = test::open_tokenizer(path);
        if (tokenizer == nullptr) continue;
        GrammarMasks masks(tokenizer);
        for (const std::int32_t most : {0, 1, 7, 30}) {
            Thought thought = kInside;
            thought.max_tokens = most;
            for (std::uint64_t seed = 1; seed <= 4; ++seed) {
                const auto tokens = static_cast<std::size_t>(most) + kCloseTokens;
                const Drawn drawn =
                    draw(masks, *tokenizer, yes_or_no(thought), seed, tokens + 6 + kCloseTokens);
                EXPECT_TRUE(drawn.ended) << drawn.text;
                EXPECT_TRUE(follows(yes_or_no(kInside), drawn.text)) << drawn.text;
                const Drawn any =
                    draw(masks, *tokenizer, {Kind::none, "", 0, thought}, seed, tokens);
                EXPECT_NE(any.text.find(thought.close), std::string::npos) << any.text;
                const Drawn more =
                    draw(masks, *tokenizer, {Kind::none, "", 0, thought}, seed, 3 * tokens);
                EXPECT_EQ(more.text.find(thought.close), any.text.find(thought.close));
                EXPECT_EQ(more.text.find(thought.close), more.text.rfind(thought.close))
                    << "it is closed once: " << more.text;
                ++tried;
            }
        }
    }
    EXPECT_GT(tried, 0);
}

TEST(ThoughtGrammar, ThoughtAndAnswerEndWithinTheirTokens) {
    const auto tokenizer = test::open_tokenizer(test::kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    OutputGrammar grammar = {Kind::json_schema, R"({"type":"object","properties":{"a":{"type":
        "string","maxLength":40}},"required":["a"]})",
                             0, kMayOpen};
    const auto fewest = masks.fewest_tokens(grammar);
    ASSERT_TRUE(fewest.ok());
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        grammar.within_tokens = static_cast<std::int32_t>(*fewest + seed);
        const Drawn drawn = draw(masks, *tokenizer, grammar, seed, 1000);
        EXPECT_LE(drawn.tokens, *fewest + seed) << drawn.text;
        EXPECT_TRUE(follows(grammar, drawn.text)) << drawn.text;
    }
}

// What a grammar says is the text of the final channel, and a budget closes the analysis.
TEST(ThoughtGrammar, ChannelsAreReadBack) {
    const auto tokenizer = test::open_tokenizer(test::kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    AnswerParser::Options options;
    options.format.tools = find_tool_format("harmony");
    Thought thought = options.format.thought_behind("<|start|>assistant");
    thought.max_tokens = 60;
    int thoughts = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const Drawn drawn = draw(masks, *tokenizer, yes_or_no(thought), seed, 200);
        ASSERT_TRUE(drawn.ended) << drawn.text;
        AnswerParser parser(options);
        std::vector<OutputPart> parts;
        parser.push(drawn.text, parts);
        parser.finish(false, parts);
        std::string content;
        for (const OutputPart& part : parts) {
            if (const auto* text = std::get_if<ContentText>(&part)) content += text->text;
            thoughts += std::holds_alternative<ReasoningText>(part) ? 1 : 0;
        }
        EXPECT_TRUE(content == "yes" || content == "no") << drawn.text;
    }
    EXPECT_GT(thoughts, 0);
    const Thought free =
        options.format.thought_behind("<|start|>assistant<|channel|>analysis<|message|>");
    OutputGrammar budget = {Kind::none, "", 0, free};
    budget.thought.max_tokens = 10;
    const Drawn closed = draw(masks, *tokenizer, budget, 1, 10 + free.close.size());
    EXPECT_NE(closed.text.find("<|end|><|start|>assistant<|channel|>final<|message|>"),
              std::string::npos)
        << closed.text;
}

TEST(AnswerFormat, KnowsTheThoughtThatMayComeFirst) {
    const AnswerFormat format = {find_tool_format("hermes"), find_reasoning_format("think")};
    EXPECT_EQ(format.thought_behind("<|im_start|>assistant\n"),
              (Thought{"<think>", "</think>", {}, -1}));
    EXPECT_EQ(format.thought_behind("assistant\n<think>\n").open, "");
    EXPECT_EQ(format.thought_behind("assistant\n<think>\n").close, "</think>");
    EXPECT_EQ(format.thought_behind("<think>\n\n</think>\n\n"), Thought{});
    EXPECT_EQ(AnswerFormat{}.thought_behind("<think>"), Thought{});
    const AnswerFormat kimi = {find_tool_format("kimi_k2"), find_reasoning_format("think")};
    EXPECT_EQ(kimi.thought_behind("").never.size(), 2U);
    const AnswerFormat harmony = {find_tool_format("harmony"), nullptr};
    EXPECT_EQ(harmony.thought_behind("<|start|>assistant").open, "<|channel|>analysis<|message|>");
    EXPECT_TRUE(harmony.thought_behind("<|channel|>analysis<|message|>").open.empty());
    EXPECT_TRUE(harmony.thought_behind("").close.ends_with("<|channel|>final<|message|>"));
    EXPECT_TRUE(harmony.thought_behind("", true).close.ends_with("<|start|>assistant"));
}

}  // namespace
}  // namespace helix::text::thought_grammar_test
