#include "text/grammar/call_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar_helpers.h"

namespace helix::text::grammar::call_grammar_test {
namespace {

using test::Kind;
using Json = nlohmann::ordered_json;

Json tool(const std::string& name, const Json& schema) {
    return {{"before", "<call>{\"name\": \"" + name + "\", \"arguments\": "},
            {"schema", schema},
            {"after", "}</call>"}};
}

Json form() {
    return {{"between", "\n"},
            {"min", 1},
            {"max", 2},
            {"calls",
             {tool("add", {{"type", "object"},
                           {"properties", {{"a", {{"type", "integer"}}}}},
                           {"required", {"a"}}}),
              tool("now", {{"type", "object"}, {"additionalProperties", false}})}}};
}

bool takes(const Json& form, const std::string& text) {
    const auto automaton = compile({Kind::tool_calls, form.dump()});
    EXPECT_TRUE(automaton.ok());
    return test::matches(*automaton, text);
}

TEST(CallGrammar, TakesCallsOfItsToolsAndNothingElse) {
    const std::string add = R"(<call>{"name": "add", "arguments": {"a":7}}</call>)";
    const std::string now = R"(<call>{"name": "now", "arguments": {}}</call>)";
    EXPECT_TRUE(takes(form(), add));
    EXPECT_TRUE(takes(form(), now));
    EXPECT_TRUE(takes(form(), add + "\n" + now));
    EXPECT_FALSE(takes(form(), add + now));
    EXPECT_FALSE(takes(form(), add + "\n" + now + "\n" + add));
    EXPECT_FALSE(takes(form(), ""));
    EXPECT_FALSE(takes(form(), "Yes. " + add));
    EXPECT_FALSE(takes(form(), R"(<call>{"name": "add", "arguments": {}}</call>)"));
    EXPECT_FALSE(takes(form(), R"(<call>{"name": "sub", "arguments": {"a":7}}</call>)"));
}

TEST(CallGrammar, ErrorsSayWhatIsWrong) {
    const auto said = [](const Json& form) {
        const auto automaton = compile({Kind::tool_calls, form.dump()});
        return automaton.ok() ? "" : automaton.error().message;
    };
    Json no_calls = form();
    no_calls["calls"] = Json::array();
    EXPECT_NE(said(no_calls).find("calls"), std::string::npos);
    Json no_schema = form();
    no_schema["calls"][0].erase("schema");
    EXPECT_NE(said(no_schema).find("schema"), std::string::npos);
    Json bad_schema = form();
    bad_schema["calls"][0]["schema"] = {{"type", "thing"}};
    EXPECT_NE(said(bad_schema).find("thing"), std::string::npos) << said(bad_schema);
    Json few = form();
    few["max"] = 1;
    few["min"] = 2;
    EXPECT_NE(said(few).find("min"), std::string::npos);
    EXPECT_FALSE(compile({Kind::tool_calls, "[]"}).ok());
    EXPECT_FALSE(compile({Kind::tool_calls, "{"}).ok());
}

// A marker that is a control token may be drawn as such; other control tokens may not.
TEST(CallGrammar, AMarkersControlTokenMayBeDrawn) {
    const auto tokenizer =
        test::open_tokenizer(std::string(HELIX_SOURCE_DIR) + "/models/helix-demo.gguf");
    ASSERT_NE(tokenizer, nullptr);
    std::vector<Token> control;
    for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
        if (tokenizer->is_special(token) && !tokenizer->is_end_of_generation(token) &&
            !tokenizer->token_bytes(token).empty()) {
            control.push_back(token);
        }
    }
    ASSERT_FALSE(control.empty());
    Json marked = form();
    marked["begin"] = tokenizer->token_bytes(control[0]);
    GrammarMasks masks(tokenizer);
    const auto plain = masks.allowed({Kind::tool_calls, marked.dump()}, 1, {});
    ASSERT_TRUE(plain.ok());
    EXPECT_FALSE((*plain)->test(control[0]));
    marked["markers"] = {marked["begin"]};
    const spec::OutputGrammar grammar = {Kind::tool_calls, marked.dump()};
    const auto mask = masks.allowed(grammar, 1, {});
    ASSERT_TRUE(mask.ok());
    EXPECT_TRUE((*mask)->test(control[0]));
    for (std::size_t i = 1; i < control.size(); ++i) EXPECT_FALSE((*mask)->test(control[i]));
    EXPECT_TRUE(masks.allowed(grammar, 1, std::vector{control[0]}).ok());
}

}  // namespace
}  // namespace helix::text::grammar::call_grammar_test
