#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar_helpers.h"
#include "schema_checker.h"
#include "text/detokenizer.h"

namespace helix::text::grammar::grammar_masks_test {
namespace {

using test::kDemo;
using test::Kind;
using test::vocabularies;

// Tries every token, byte by byte, with a matcher that knows nothing of tries and masks.
void expect_mask(const TokenMask& mask, const std::shared_ptr<const Automaton>& automaton,
                 const std::string& so_far, const Tokenizer& tokenizer) {
    Matcher matcher(automaton);
    const auto follow = [&](Matcher::State state, std::string_view bytes) {
        for (const char byte : bytes) state = matcher.next(state, static_cast<std::uint8_t>(byte));
        return state;
    };
    const Matcher::State here = follow(matcher.start(), so_far);
    for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
        const std::string_view bytes = tokenizer.token_bytes(token);
        bool expected = false;
        if (tokenizer.is_end_of_generation(token)) {
            expected = matcher.accepts(here);
        } else if (!tokenizer.is_special(token) && !bytes.empty()) {
            expected = follow(here, bytes) != Matcher::kDead;
        }
        ASSERT_EQ(mask.test(token), expected)
            << "token " << token << " \"" << bytes << "\" after \"" << so_far << "\"";
    }
}

void expect_output_fits(const spec::OutputGrammar& grammar, const std::string& text) {
    if (grammar.kind == Kind::gbnf) return;
    const auto value = test::Json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    if (grammar.kind == Kind::json_object) {
        EXPECT_TRUE(value.is_object()) << text;
    } else {
        const auto schema = test::Json::parse(grammar.text);
        EXPECT_TRUE(test::satisfies(value, schema, schema)) << grammar.text << "\n" << text;
    }
}

// Writes a text by random allowed tokens. Returns whether it came to an end.
bool write_text(GrammarMasks& masks, const Tokenizer& tokenizer, const spec::OutputGrammar& grammar,
                std::uint64_t seed, std::size_t check_every) {
    const auto automaton = compile(grammar);
    base::Random random(seed);
    std::vector<Token> output;
    std::string text;
    for (std::size_t i = 0; i < 300; ++i) {
        const auto mask = masks.allowed(grammar, seed, output);
        if (!mask.ok()) {
            ADD_FAILURE() << mask.error().message << " after " << text;
            return false;
        }
        if (check_every != 0 && i % check_every == 0) {
            expect_mask(**mask, *automaton, text, tokenizer);
        }
        const Token token = test::pick_token(tokenizer, **mask, random, i);
        output.push_back(token);
        if (tokenizer.is_end_of_generation(token)) {
            expect_output_fits(grammar, text);
            return true;
        }
        text += tokenizer.token_bytes(token);
    }
    return false;
}

TEST(GrammarMasks, AreWhatTryingEveryTokenSays) {
    for (const std::string& path : vocabularies()) {
        const auto tokenizer = test::open_tokenizer(path);
        if (tokenizer == nullptr) continue;  // its file is not here
        SCOPED_TRACE(path);
        GrammarMasks masks(tokenizer);
        std::uint64_t seed = 0;
        for (const spec::OutputGrammar& grammar : test::sample_grammars()) {
            SCOPED_TRACE(grammar.text);
            write_text(masks, *tokenizer, grammar, ++seed, path == kDemo ? 1 : 7);
        }
    }
}

TEST(GrammarMasks, RandomTextsParseAndSatisfyTheSchema) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    int ended = 0;
    int written = 0;
    for (const spec::OutputGrammar& grammar : test::sample_grammars()) {
        for (std::uint64_t seed = 0; seed < 15; ++seed) {
            SCOPED_TRACE(testing::Message() << "seed " << seed);
            ended += write_text(masks, *tokenizer, grammar, seed, 0) ? 1 : 0;
            ++written;
        }
    }
    EXPECT_GT(ended, written * 9 / 10);
}

TEST(GrammarMasks, AnAnswerDependsOnTheOutputOnly) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    const spec::OutputGrammar grammar{Kind::json_object, ""};
    GrammarMasks one(tokenizer);
    const std::vector<Token> output =
        test::spell(*tokenizer, R"({"a": [1, 2.5e3, "x\n\u00e9"], "bcd": {"e": null, "f": {}}})");
    ASSERT_GT(output.size(), 10U);
    for (std::size_t n = 0; n <= output.size(); ++n) {
        const std::span<const Token> part(output.data(), n);
        const auto mask = one.allowed(grammar, 1, part);
        ASSERT_TRUE(mask.ok()) << mask.error().message;
        if (n < output.size()) {
            EXPECT_TRUE((*mask)->test(output[n])) << n;
        }
        GrammarMasks fresh(tokenizer);
        const auto replayed = fresh.allowed(grammar, 1, part);
        ASSERT_TRUE(replayed.ok());
        ASSERT_EQ((*mask)->words(), (*replayed)->words());
    }
    // Output is taken back, and another text comes under the same id, as after a preemption.
    for (const std::size_t n : {output.size(), std::size_t{3}, std::size_t{0}, output.size() / 2}) {
        const std::span<const Token> part(output.data(), n);
        GrammarMasks fresh(tokenizer);
        const auto expected = fresh.allowed(grammar, 9, part);
        const auto got = one.allowed(grammar, 1, part);
        ASSERT_TRUE(got.ok() && expected.ok());
        EXPECT_EQ((*got)->words(), (*expected)->words());
    }
}

TEST(GrammarMasks, ACountFarFromItsEndDoesNotMatter) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    const spec::OutputGrammar grammar{Kind::gbnf, "root ::= \"<\" [a-z]{0,300} \">\""};
    const auto mask_after = [&](std::size_t letters) {
        const auto output = test::spell(*tokenizer, "<" + std::string(letters, 'x'));
        auto mask = masks.allowed(grammar, letters, output);
        CHECK(mask.ok());
        return *mask;
    };
    EXPECT_EQ(mask_after(1), mask_after(2));  // the very same
    EXPECT_EQ(mask_after(1), mask_after(100));
    EXPECT_NE(mask_after(1)->words(), mask_after(300)->words());
    EXPECT_LT(mask_after(300)->count(), mask_after(299)->count());
}

TEST(GrammarMasks, OnlyTheEndFollowsACompleteText) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    const spec::OutputGrammar grammar{Kind::gbnf, "root ::= \"yes\""};
    std::vector<Token> output = test::spell(*tokenizer, "yes");
    auto mask = masks.allowed(grammar, 1, output);
    ASSERT_TRUE(mask.ok()) << mask.error().message;
    Token end = -1;
    for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
        EXPECT_EQ((*mask)->test(token), tokenizer->is_end_of_generation(token));
        if ((*mask)->test(token)) end = token;
    }
    ASSERT_GE(end, 0);
    // Nothing may follow the end token.
    output.push_back(end);
    const auto after = masks.allowed(grammar, 1, output);
    ASSERT_TRUE(after.ok());
    EXPECT_EQ((*after)->words(), (*mask)->words());
    output.push_back(output.front());
    const auto wrong = masks.allowed(grammar, 1, output);
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().message,
              "token " + std::to_string(output.front()) + " does not follow the grammar here");
}

TEST(GrammarMasks, ErrorsSayWhatIsWrong) {
    Vocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = {"<unk>", "<s>", "</s>", "a", "b"};
    vocabulary.scores = {0, 0, 0, 0, 0};
    vocabulary.kinds = {TokenKind::unknown, TokenKind::control, TokenKind::control,
                        TokenKind::normal, TokenKind::normal};
    const auto tokenizer = Tokenizer::create(vocabulary);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    GrammarMasks masks(*tokenizer);
    const auto message = [&](Kind kind, const std::string& text, std::vector<Token> output) {
        const auto mask = masks.allowed({kind, text}, 1, output);
        return mask.ok() ? "no error" : mask.error().message;
    };
    EXPECT_EQ(message(Kind::gbnf, "root ::= \"a\" \"c\"", {}), "no error");
    EXPECT_EQ(message(Kind::gbnf, "root ::= \"a\" \"c\"", {3}),
              "no token of this model's vocabulary can go on as the grammar wants");
    EXPECT_EQ(message(Kind::gbnf, "root ::= \"a\"", {4}),
              "token 4 does not follow the grammar here");
    EXPECT_EQ(message(Kind::gbnf, "root ::= x", {}),
              "line 1, column 10: rule \"x\" is not defined, found 'x'");
    const auto any = masks.allowed({Kind::none, ""}, 1, {});
    ASSERT_TRUE(any.ok());
    EXPECT_EQ(*any, nullptr) << "any token may follow";
    EXPECT_EQ(message(Kind::gbnf, std::string(70'000, ' '), {}),
              "70000 bytes are too many; at most 65536 are allowed");
    const std::string ambiguous = "root ::= \"a\" root \"b\" | \"a\" root \"aa\" | \"a\"";
    EXPECT_EQ(message(Kind::gbnf, ambiguous, std::vector<Token>(20, 3)), "no error");
    // Each place of the text may be where the middle was, and is left in 400 ways.
    std::string middle = "root ::= \"\"";
    for (int i = 0; i < 400; ++i) middle += " | [ab] root [ab]";
    EXPECT_EQ(
        message(Kind::gbnf, middle, std::vector<Token>(300, 3)),
        "the grammar is too ambiguous: there are more than 20000 ways to read the text so far");
    EXPECT_EQ(message(Kind::gbnf, middle, {3, 3}), "no error");
}

TEST(GrammarMasks, ManyGrammarsAndTextsComeAndGo) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    GrammarMasks masks(tokenizer);
    for (int round = 0; round < 2; ++round) {
        for (std::size_t n = 1; n <= GrammarMasks::kMaxGrammars + 3; ++n) {
            const spec::OutputGrammar grammar{Kind::gbnf,
                                              "root ::= [0-9]{" + std::to_string(n) + "}"};
            std::vector<Token> output;
            std::size_t characters = 0;
            for (int i = 0; characters < n; ++i) {
                const auto mask = masks.allowed(grammar, n, output);
                ASSERT_TRUE(mask.ok());
                base::Random random(n);
                output.push_back(test::pick_token(*tokenizer, **mask, random, 0));
                characters += tokenizer->token_bytes(output.back()).size();
            }
            EXPECT_EQ(characters, n);
        }
    }
    const spec::OutputGrammar digits{Kind::gbnf, "root ::= [0-9]+"};
    for (std::uint64_t id = 0; id < GrammarMasks::kMaxTexts + 50; ++id) {
        ASSERT_TRUE(masks.allowed(digits, id, {}).ok());
    }
}

TEST(GrammarMasks, WhatIsKeptIsDroppedWhenItGrowsTooLarge) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    const auto automaton = compile({Kind::json_object, ""});
    ASSERT_TRUE(automaton.ok());
    const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
    ConstrainedText roomy(*automaton, trie, tokenizer);
    ConstrainedText tight(*automaton, trie, tokenizer, {.memory_bytes = 1});
    const auto first = roomy.allowed(roomy.start());
    ASSERT_TRUE(first.ok());
    roomy.drop_if_large();
    EXPECT_EQ(roomy.generation(), 0U);
    const auto again = roomy.allowed(roomy.start());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*first, *again);  // the very mask
    for (std::uint64_t n = 1; n <= 3; ++n) {
        tight.drop_if_large();
        EXPECT_EQ(tight.generation(), n);
        const auto mask = tight.allowed(tight.start());
        ASSERT_TRUE(mask.ok());
        EXPECT_EQ((*mask)->words(), (*first)->words());
    }
}

// Sixty ways to read each text so far, and which of them are left depends on every letter: each
// token of the vocabulary leads to a state of its own.
spec::OutputGrammar hostile_grammar() {
    std::string text = "root ::= ";
    for (int i = 0; i < 150; ++i) {
        text += std::string(i == 0 ? "r \"" : " | r \"") + std::to_string(i) + "!\"";
    }
    text += "\nr ::= ";
    const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,.:;()#=";
    for (std::size_t i = 0; i < letters.size(); ++i) {
        text += std::string(i == 0 ? "" : " | ") + "[^" + letters[i] + "]*";
    }
    return {Kind::gbnf, text};
}

TEST(GrammarMasks, AGrammarThatTellsAllTokensApartEndsAtItsBudget) {
    const auto tokenizer = test::open_tokenizer(HELIX_DATA_DIR "/vocab/ggml-vocab-llama-spm.gguf");
    if (tokenizer == nullptr) GTEST_SKIP() << "its file is not here";
    const MaskLimits limits;
    const std::string expected =
        "the grammar is too costly: finding the tokens that may follow "
        "takes more than " +
        std::to_string(limits.mask_steps) + " steps here";
    GrammarMasks masks(tokenizer);
    std::vector<Token> output;
    for (std::uint64_t text = 0; text < 200; ++text) {  // as many choices: it is found out once
        const auto mask = masks.allowed(hostile_grammar(), text, output);
        ASSERT_FALSE(mask.ok());
        EXPECT_EQ(mask.error().message, expected);
    }
    EXPECT_LE(masks.most_steps(), limits.mask_steps + 100'000);
    EXPECT_LT(masks.memory_bytes(), std::size_t{200} << 20);
    // Other grammars are not affected.
    EXPECT_TRUE(masks.allowed({Kind::json_object, ""}, 1, {}).ok());
}

// Whether a request ends at a limit must not depend on what its worker has seen before.
TEST(GrammarMasks, ABudgetEndsATextAtTheSameTokenWhateverIsKept) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    const spec::OutputGrammar grammar{Kind::json_object, ""};
    const std::vector<Token> output =
        test::spell(*tokenizer, R"({"a": [1, 2.5e3, "x\n\u00e9"], "bcd": {"e": null, "f": {}}})");
    GrammarMasks free(tokenizer);
    for (std::size_t n = 0; n <= output.size(); ++n) {
        ASSERT_TRUE(free.allowed(grammar, 1, std::span(output).first(n)).ok());
    }
    const std::uint64_t most = free.most_steps();
    std::size_t refused = 0;
    for (const std::uint64_t limit : {most - 1, most / 2, most / 8}) {
        GrammarMasks used(tokenizer, {.mask_steps = limit});
        for (std::size_t n = 0; n <= output.size(); ++n) {
            const auto part = std::span(output).first(n);
            const auto again = used.allowed(grammar, 1, part);
            GrammarMasks fresh(tokenizer, {.mask_steps = limit});
            const auto first = fresh.allowed(grammar, 1, part);
            ASSERT_EQ(again.ok(), first.ok()) << limit << " steps, after " << n << " tokens";
            refused += again.ok() ? 0U : 1U;
        }
    }
    EXPECT_GT(refused, 3U);
    GrammarMasks brief(tokenizer, {.text_steps = 1});
    EXPECT_TRUE(brief.allowed(grammar, 1, {}).ok());
    const auto followed = brief.allowed(grammar, 1, std::span(output).first(1));
    ASSERT_FALSE(followed.ok());
    EXPECT_EQ(followed.error().message,
              "the grammar is too costly: following the text so far takes more than 1 steps");
}

TEST(GrammarMasks, AllGrammarsTogetherKeepNoMoreThanTheyMay) {
    const auto tokenizer = test::open_tokenizer(kDemo);
    ASSERT_NE(tokenizer, nullptr);
    const auto write = [&](GrammarMasks& masks, std::size_t n) {
        const std::string name = "a" + std::to_string(n);
        const spec::OutputGrammar grammar{
            Kind::json_schema, R"({"type":"object","properties":{")" + name +
                                   R"(":{"type":"object"}},"required":[")" + name + "\"]}"};
        const auto output = test::spell(*tokenizer, "{\"" + name + R"(": {"x": [1, 2.5, "yz")");
        for (std::size_t i = 0; i <= output.size(); ++i) {
            ASSERT_TRUE(masks.allowed(grammar, n, std::span(output).first(i)).ok());
        }
    };
    GrammarMasks alone(tokenizer);
    write(alone, 0);
    const std::size_t one = alone.memory_bytes();
    GrammarMasks masks(tokenizer, {}, 4 * one);
    std::size_t most = 0;
    for (std::size_t n = 0; n < 12; ++n) {
        write(masks, n);
        most = std::max(most, masks.memory_bytes());
    }
    EXPECT_LE(most, 4 * one);
    EXPECT_GT(most, 2 * one);
}

// Grammars as people write them, of which none comes near the budget.
std::vector<spec::OutputGrammar> honest_grammars() {
    std::vector<spec::OutputGrammar> out = test::sample_grammars();
    std::string wide = R"({"type":"object","properties":{)";
    std::string choices = R"({"type":"object","properties":{"country":{"enum":[)";
    for (int i = 0; i < 60; ++i) {
        const std::string comma = i == 0 ? "" : ",";
        wide += comma + R"("field_)" + std::to_string(i) +
                R"(":{"type":["string","number","boolean","null"]})";
    }
    for (int i = 0; i < 300; ++i) {
        choices +=
            std::string(i == 0 ? "\"" : ",\"") + "Country number " + std::to_string(i * i) + "\"";
    }
    out.push_back({Kind::json_schema, wide + "}}"});
    out.push_back({Kind::json_schema, choices + R"(]}},"required":["country"]})"});
    out.push_back({Kind::json_schema,
                   R"({"type":"object","properties":{"tool":{"anyOf":[
      {"type":"object","properties":{"name":{"const":"search"},"arguments":{"type":"object",
        "properties":{"query":{"type":"string","maxLength":400},"limit":{"type":"integer",
        "minimum":1,"maximum":1000}},"required":["query"]}},"required":["name","arguments"]},
      {"type":"object","properties":{"name":{"const":"send_mail"},"arguments":{"type":"object",
        "properties":{"to":{"type":"array","items":{"type":"string","format":"email"},"minItems":1,
        "maxItems":20},"at":{"type":"string","format":"date-time"},"text":{"type":"string"}},
        "required":["to","text"]}},"required":["name","arguments"]},
      {"type":"object","properties":{"name":{"const":"store"},"arguments":{"type":"object",
        "additionalProperties":{"type":["string","number"]}}},"required":["name","arguments"]}]}},
      "required":["tool"]})"});
    out.push_back({Kind::json_schema,
                   R"({"$defs":{"node":{"type":"object","properties":{"id":{"type":"string",
      "format":"uuid"},"name":{"type":"string","minLength":1,"maxLength":80},"children":{"type":
      "array","items":{"$ref":"#/$defs/node"}}},"required":["id","name"]}},"$ref":"#/$defs/node"})"});
    out.push_back({Kind::gbnf, "root ::= (word \" \"){5,200} word \".\"\nword ::= [a-zA-Z]{1,20}"});
    out.push_back({Kind::gbnf,
                   "root ::= expr\nexpr ::= term (ws [-+] ws term)*\nterm ::= factor (ws [*/] ws "
                   "factor)*\nfactor ::= number | name call? | \"(\" ws expr ws \")\"\ncall ::= "
                   "\"(\" (expr (\",\" ws expr)*)? \")\"\nname ::= [a-zA-Z_] [a-zA-Z_0-9]*\nnumber "
                   "::= \"-\"? [0-9]+ (\".\" [0-9]+)?\nws ::= [ ]?"});
    out.push_back({Kind::gbnf, "root ::= \"a\" root \"b\" | \"a\" root \"aa\" | \"a\""});
    out.push_back({Kind::gbnf, "root ::= (line \"\\n\")+\nline ::= [^\\n]* | \"- \" [^\\n]+"});
    return out;
}

TEST(GrammarMasks, HonestGrammarsStayFarUnderTheBudget) {
    const MaskLimits limits;
    for (const std::string& path : vocabularies()) {
        const auto tokenizer = test::open_tokenizer(path);
        if (tokenizer == nullptr) continue;  // its file is not here
        SCOPED_TRACE(path);
        std::uint64_t most = 0;
        std::uint64_t seed = 0;
        for (const spec::OutputGrammar& grammar : honest_grammars()) {
            SCOPED_TRACE(grammar.text);
            GrammarMasks masks(tokenizer);
            write_text(masks, *tokenizer, grammar, ++seed, 0);
            EXPECT_LT(masks.most_steps(), limits.mask_steps / 10);
            if (masks.most_steps() > most) {
                most = masks.most_steps();
                RecordProperty("costliest", grammar.text.substr(0, 100));
            }
        }
        std::printf("most steps for a mask: %llu of %llu\n", static_cast<unsigned long long>(most),
                    static_cast<unsigned long long>(limits.mask_steps));
    }
}

}  // namespace
}  // namespace helix::text::grammar::grammar_masks_test
