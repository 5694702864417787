// Calls that are drawn under the grammar of a form are calls to its parser, with arguments that
// satisfy their schema.

#include "text/tool_calls/drawn_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "answer_reader.h"
#include "grammar_helpers.h"
#include "schema_checker.h"
#include "schema_maker.h"
#include "text/tool_calls/tool_format.h"

namespace helix::text::drawn_calls_test {
namespace {

using Json = nlohmann::ordered_json;
using grammar::GrammarMasks;
namespace test = grammar::test;

Json tools() {
    return Json::parse(R"([
      {"type":"function","function":{"name":"add","parameters":{"type":"object","properties":
        {"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],
        "additionalProperties":false}}},
      {"type":"function","function":{"name":"find","parameters":{"type":"object","properties":
        {"place":{"type":"string","maxLength":20},"kind":{"enum":["near","far"]},
         "tag":{"type":["string","null"]},"code":{"type":"string","pattern":"^[A-Z<]{2}$"},
         "more":{"type":"object","properties":{"x":{"type":"string"}}}},
        "required":["place"]}}},
      {"type":"function","function":{"name":"now"}}])");
}

// Of a model without any of the tokens that tell variants apart.
DrawnForm form_of(std::string_view format, std::string_view chat_template = "") {
    const auto form = drawn_form(format, chat_template, [](std::string_view) { return false; });
    CHECK(form.has_value());
    return *form;
}

Token any_of(const grammar::TokenMask& mask, std::int32_t vocab, base::Random& random) {
    std::vector<Token> allowed;
    for (Token token = 0; token < vocab; ++token) {
        if (mask.test(token)) allowed.push_back(token);
    }
    return allowed[random.below(allowed.size())];
}

// A text under the grammar that begins like this and goes on with tokens at random; it ends because
// it has to.
std::string draw(GrammarMasks& masks, const Tokenizer& tokenizer,
                 const spec::OutputGrammar& grammar, std::uint64_t seed, std::string_view begin) {
    base::Random random(seed);
    const std::vector<Token> first = test::spell(tokenizer, begin);
    std::vector<Token> output;
    std::string text;
    while (true) {
        const auto mask = masks.allowed(grammar, seed, output);
        if (!mask.ok()) return "allowed: " + mask.error().message;
        const bool begins = output.size() < first.size();
        Token token =
            begins ? first[output.size()] : any_of(**mask, tokenizer.vocab_size(), random);
        if (!(*mask)->test(token)) return "not allowed: " + text;
        const auto other = masks.instead_of(token, grammar, seed, output);
        if (!other.ok()) return "instead_of: " + other.error().message;
        if (*other) token = **other;
        if (tokenizer.is_end_of_generation(token)) return text;
        output.push_back(token);
        text += tokenizer.token_bytes(token);
        if (std::ssize(output) == grammar.within_tokens) return text;
    }
}

struct Read {
    std::vector<ToolCallDelta> calls;
    std::string content;
};

// What the form's parser reads out of the text.
Read read(const ToolFormat& format, const std::string& text, const Json& offered = tools()) {
    AnswerParser::Options options;
    options.format.tools = &format;
    options.tools = std::make_shared<const ToolSchemas>(offered);
    AnswerParser parser(options);
    std::vector<OutputPart> parts;
    parser.push(text, parts);
    parser.finish(false, parts);
    std::vector<OutputPart> joined;
    for (OutputPart& part : parts) append_part(joined, std::move(part));
    Read all;
    for (const OutputPart& part : joined) {
        const auto* call = std::get_if<ToolCallDelta>(&part);
        if (call != nullptr && call->complete) all.calls.push_back(*call);
        const auto* content = std::get_if<ContentText>(&part);
        if (content != nullptr) all.content += content->text;
    }
    return all;
}

void expect_valid(const ToolCallDelta& call, const Json& offered = tools()) {
    const auto arguments = test::Json::parse(call.arguments, nullptr, false);
    ASSERT_FALSE(arguments.is_discarded()) << call.arguments;
    const Json named = tools_to_call(offered);
    const auto tool = std::find_if(named.begin(), named.end(),
                                   [&](const Json& one) { return one["name"] == call.name; });
    ASSERT_NE(tool, named.end()) << call.name;
    const auto schema = test::Json::parse((*tool)["parameters"].dump());
    EXPECT_TRUE(test::satisfies(arguments, schema, schema)) << call.arguments;
}

class DrawnCalls : public ::testing::Test {
  protected:
    void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }
    // The grammar of calls in the form; nothing where it cannot be one, which the error names.
    std::optional<spec::OutputGrammar> grammar_of(const ToolFormat& format, bool several,
                                                  bool demanded) {
        if (format.name == "none") return std::nullopt;
        const DrawnForm drawn = form_of(format.name);
        const auto form = grammar_of_calls({&drawn, &named_, several, demanded});
        if (form.ok())
            return spec::OutputGrammar{spec::OutputGrammar::Kind::tool_calls, *form, 220};
        EXPECT_NE(form.error().message.find(format.name), std::string::npos);
        return std::nullopt;
    }
    std::shared_ptr<const Tokenizer> tokenizer_ = test::open_tokenizer(test::kDemo);
    Json named_ = tools_to_call(tools());
};

TEST_F(DrawnCalls, AreReadBackInEveryForm) {
    int forms = 0;
    int several_calls = 0;
    for (const ToolFormat& format : tool_formats()) {
        for (const bool several : {false, true}) {
            const auto grammar = grammar_of(format, several, true);
            if (!grammar) continue;
            ++forms;
            GrammarMasks masks(tokenizer_);
            for (std::uint64_t seed = 1; seed <= (kSanitized ? 2 : 12); ++seed) {
                const std::string text = draw(masks, *tokenizer_, *grammar, seed, "");
                SCOPED_TRACE(std::string(format.name) + ", seed " + std::to_string(seed) + ": " +
                             text);
                const Read got = read(format, text);
                ASSERT_GE(got.calls.size(), 1U);
                ASSERT_TRUE(several || got.calls.size() == 1);
                EXPECT_EQ(got.content.find_first_not_of(" \n"), std::string::npos) << got.content;
                several_calls += got.calls.size() > 1 ? 1 : 0;
                for (const ToolCallDelta& call : got.calls) expect_valid(call);
            }
        }
    }
    EXPECT_EQ(forms, 2 * (std::ssize(tool_formats()) - 1));
    EXPECT_GT(several_calls, kSanitized ? 0 : 5);
}

// Any text may come first, also what looks like the beginning of a call.
TEST_F(DrawnCalls, AreHeldToTheirSchemasWhereTheyBegin) {
    int forms = 0;
    for (const ToolFormat& format : tool_formats()) {
        const auto grammar = grammar_of(format, true, false);
        if (!grammar) continue;
        ++forms;
        GrammarMasks masks(tokenizer_);
        const Json form = Json::parse(grammar->text);
        const Json& any = form["trigger"];
        const std::string trigger = any.is_array() ? any[0] : any;
        for (std::uint64_t seed = 1; seed <= (kSanitized ? 2 : 12); ++seed) {
            const std::string said =
                form["headers_end"] != "" ? "<|channel|>analysis<|message|>so to=functions.q "
                                            "we<|end|><|start|>assistant<|channel|>commentary "
                : form["trigger_first"] == true
                    ? ""
                    : "I look <too " + trigger.substr(0, trigger.size() - 1) + "_ ";
            const std::string text = draw(masks, *tokenizer_, *grammar, seed, said + trigger);
            SCOPED_TRACE(std::string(format.name) + ", seed " + std::to_string(seed) + ": " + text);
            const Read got = read(format, text);
            ASSERT_GE(got.calls.size(), 1U);
            EXPECT_TRUE(said.empty() || said.starts_with("<|channel|>") ||
                        got.content.starts_with(said.substr(0, said.size() - 1)));
            for (const ToolCallDelta& call : got.calls) expect_valid(call);
        }
        // Free text is cut where the tokens end, and goes nowhere that cannot be ended.
        spec::OutputGrammar small = *grammar;
        small.within_tokens = 5;
        for (std::uint64_t seed = 1; seed <= (kSanitized ? 2 : 12); ++seed) {
            const std::string text = draw(masks, *tokenizer_, small, seed, "");
            EXPECT_EQ(text.find(trigger), std::string::npos) << text;
            EXPECT_EQ(text.rfind("allowed: ", 0), std::string::npos) << text;
            EXPECT_EQ(text.rfind("instead_of: ", 0), std::string::npos) << text;
        }
        const std::string late = draw(masks, *tokenizer_, small, 1, trigger);
        EXPECT_EQ(late.find(trigger), std::string::npos) << "no call begins too late: " << late;
    }
    EXPECT_EQ(forms, std::ssize(tool_formats()) - 1);
}

// A tool whose parameters are schemas at random, beside a text.
Json random_tool(std::uint64_t seed) {
    test::SchemaMaker maker(seed);
    Json properties = {{"a", maker.schema(2)},
                       {"text", {{"type", "string"}, {"maxLength", 12}}},
                       {"b-c", maker.schema(2)}};
    properties["more"] = {
        {"type", "object"},
        {"properties", {{"it's <\"", {{"enum", {"<|\"|>", "\"'\\", true, nullptr}}}}}},
        {"additionalProperties", {{"type", "boolean"}}}};
    properties["again"] = {{"$ref", "#/properties/more"}};
    Json tool = Json::parse(R"({"type":"function","function":{"name":"f.g-h","parameters":
      {"type":"object","required":["text","more"],"additionalProperties":false}}})");
    tool["function"]["parameters"]["properties"] = std::move(properties);
    return Json::array({tool});
}

TEST_F(DrawnCalls, OfRandomSchemasAreReadBackInEveryForm) {
    std::map<std::string_view, int> calls;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 3 : 40); ++seed) {
        const Json offered = random_tool(seed);
        named_ = tools_to_call(offered);
        for (const ToolFormat& format : tool_formats()) {
            const auto grammar = grammar_of(format, false, true);
            if (!grammar) continue;
            GrammarMasks masks(tokenizer_);
            if (!masks.fewest_tokens(*grammar).ok()) continue;  // nothing satisfies it
            const std::string text = draw(masks, *tokenizer_, *grammar, seed, "");
            SCOPED_TRACE(std::string(format.name) + ", seed " + std::to_string(seed) + ": " + text +
                         " of " + offered.dump());
            const Read got = read(format, text, offered);
            ASSERT_EQ(got.calls.size(), 1U);
            expect_valid(got.calls.front(), offered);
            ++calls[format.name];
        }
    }
    for (const char* name : {"hermes", "pythonic", "lfm2", "gemma4"})
        EXPECT_GE(calls[name], kSanitized ? 1 : 20);
}

TEST_F(DrawnCalls, FunctionGemmasMarksAreItsOwn) {
    const DrawnForm drawn = form_of("gemma4", "<start_function_call>");
    const auto form = grammar_of_calls({&drawn, &named_, false, true});
    ASSERT_TRUE(form.ok());
    const spec::OutputGrammar grammar{spec::OutputGrammar::Kind::tool_calls, *form, 220};
    GrammarMasks masks(tokenizer_);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const std::string text = draw(masks, *tokenizer_, grammar, seed, "");
        const Read got = read(*find_tool_format("gemma4"), text);
        ASSERT_EQ(got.calls.size(), 1U) << text;
        EXPECT_EQ(text.find("<|"), std::string::npos) << text;
        expect_valid(got.calls.front());
    }
}

TEST_F(DrawnCalls, GemmaQuotesNamesWhereItHasTo) {
    const Json offered = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":
        {"type":"object","properties":{"a b":{"const":"<"},"<tool_call|>":{"const":1}},
        "required":["a b"]}}}])");
    named_ = tools_to_call(offered);
    const auto grammar = grammar_of(*find_tool_format("gemma4"), false, true);
    ASSERT_TRUE(grammar);
    GrammarMasks masks(tokenizer_);
    const std::string text = draw(masks, *tokenizer_, *grammar, 1, "<|tool_call>call:f{<|");
    EXPECT_NE(text.find("<|\"|>a b<|\"|>"), std::string::npos) << text;
    EXPECT_EQ(text.find("<tool_call|>"), text.rfind("<tool_call|>")) << text;
    const Read got = read(*find_tool_format("gemma4"), text, offered);
    ASSERT_EQ(got.calls.size(), 1U);
    expect_valid(got.calls.front(), offered);
}

// What such a call cannot keep is refused, with its name.
TEST_F(DrawnCalls, NamesThatPythonCannotWriteAreRefused) {
    const Json offered = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":
        {"type":"object","properties":{"a b":{"type":"integer"}}}}}])");
    named_ = tools_to_call(offered);
    const auto grammar = grammar_of(*find_tool_format("pythonic"), false, true);
    ASSERT_TRUE(grammar);
    const auto made = GrammarMasks(tokenizer_).fewest_tokens(*grammar);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().message,
              "the name \"a b\" cannot be kept in calls as this model writes them");
}

// Functionary's messages each begin with whom they are for.
TEST_F(DrawnCalls, ComeBehindAMessageToAll) {
    const ToolFormat& format = *find_tool_format("functionary_v32");
    const auto grammar = grammar_of(format, true, false);
    ASSERT_TRUE(grammar);
    GrammarMasks masks(tokenizer_);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const std::string text =
            draw(masks, *tokenizer_, *grammar, seed, "all\nI add\nnow >>no>>>add\n");
        const Read got = read(format, text);
        ASSERT_GE(got.calls.size(), 1U) << text;
        EXPECT_TRUE(got.content.starts_with("I add\nnow >>no")) << got.content;
        for (const ToolCallDelta& call : got.calls) expect_valid(call);
    }
}

// A name that a form's grammar takes is the one that its parser reads.
TEST_F(DrawnCalls, NamesAreReadBackOrRefused) {
    int refused = 0;
    for (const char* name : {"a", "a.b/c:d-e_1", "all", "a b", "x<y", "a\"b", "f{", "f[", "fun\nc",
                             "\xC3\xA9t\xC3\xA9", "", "functions.f", "a=b", "f>"}) {
        const Json offered = Json::array(
            {{{"type", "function"}, {"function", {{"name", name}, {"parameters", nullptr}}}}});
        named_ = tools_to_call(offered);
        for (const ToolFormat& format : tool_formats()) {
            const auto grammar = grammar_of(format, false, true);
            refused += grammar ? 0 : 1;
            if (!grammar) continue;
            GrammarMasks masks(tokenizer_);
            const std::string text = draw(masks, *tokenizer_, *grammar, 1, "");
            SCOPED_TRACE(text);
            const Read got = read(format, text, offered);
            ASSERT_EQ(got.calls.size(), 1U) << format.name;
            EXPECT_EQ(got.calls[0].name, name) << format.name;
        }
    }
    EXPECT_GT(refused, 60);
    named_ = tools_to_call(Json::parse(R"([{"type":"function","function":{"name":"a b"}}])"));
    const DrawnForm drawn = form_of("kimi_k2");
    const auto form = grammar_of_calls({&drawn, &named_, true, false});
    ASSERT_FALSE(form.ok());
    EXPECT_NE(form.error().message.find("\"a b\""), std::string::npos) << form.error().message;
}

TEST(ToolsToCall, DescriptionsAreLeftOutAndNothingElse) {
    const Json named = tools_to_call(Json::parse(R"([{"type":"function","function":{"name":"f",
        "description":"d","parameters":{"title":"T","properties":{"description":{"type":"string",
        "description":"x","examples":["y"]},"title":{"enum":["title"],"title":"z"}},
        "required":["description"],"items":[{"title":"q"}]}}}])"));
    EXPECT_EQ(named, Json::parse(R"([{"name":"f","parameters":{"properties":{"description":
        {"type":"string"},"title":{"enum":["title"]}},"required":["description"],"items":[{}],
        "type":"object"}}])"));
}

// As coding agents have them: each with a long text, options, lists of objects.
TEST_F(DrawnCalls, FortyToolsOfAnAgentAreOneGrammar) {
    const std::string words(2000, 'w');
    Json agent = Json::array();
    for (int i = 0; i < 40; ++i) {
        Json parameters = Json::parse(R"({"type":"object","properties":{
          "file_path":{"type":"string"},"old_string":{"type":"string"},"limit":{"type":"number",
          "minimum":0,"maximum":600000},"replace_all":{"type":"boolean","default":false},
          "mode":{"type":"string","enum":["content","files","count"]},"todos":{"type":"array",
          "minItems":1,"maxItems":4,"items":{"type":"object","properties":{"content":{"type":
          "string","minLength":1},"status":{"enum":["pending","done"]}},"required":["content"],
          "additionalProperties":false}},"url":{"type":"string","format":"uri"}},
          "required":["file_path","mode"],"additionalProperties":false,
          "$schema":"http://json-schema.org/draft-07/schema#"})");
        for (auto& [name, property] : parameters["properties"].items()) {
            property["description"] = words;
        }
        agent.push_back({{"type", "function"},
                         {"function",
                          {{"name", "tool_" + std::to_string(i)},
                           {"description", words},
                           {"parameters", std::move(parameters)}}}});
    }
    named_ = tools_to_call(agent);
    for (const char* name : {"hermes", "qwen3_coder", "llama3_json", "mistral"}) {
        if (kSanitized && name == std::string_view("llama3_json")) break;
        for (const bool demanded : {false, true}) {
            const auto grammar = grammar_of(*find_tool_format(name), true, demanded);
            ASSERT_TRUE(grammar);
            GrammarMasks masks(tokenizer_);
            const auto fewest = masks.fewest_tokens(*grammar);
            ASSERT_TRUE(fewest.ok()) << name << ": " << fewest.error().message;
            EXPECT_EQ(*fewest == 1, !demanded);
        }
    }
}

}  // namespace
}  // namespace helix::text::drawn_calls_test
