// What models of each family write, and what of it is content, reasoning and calls. Every text is
// read whole, byte by byte and in all pairs of pieces.

#include <gtest/gtest.h>

#include "answer_reader.h"
#include "base/effort.h"
#include "base/random.h"

namespace helix::text::answer_parser_test {
namespace {

using nlohmann::ordered_json;
using test_support::demo_tools;
using test_support::read_answer;
using test_support::ReadAnswer;
using test_support::ReadCall;
using test_support::reading;

struct Expected {
    std::string content;
    std::string reasoning{};
    std::vector<std::pair<std::string, std::string>> calls{};  // name, arguments as JSON
};

struct Golden {
    std::string what;
    AnswerParser::Options options;
    std::string text;
    Expected expected;
};

void expect_same_for_every_cut(const Golden& golden, const ReadAnswer& whole) {
    std::vector<std::size_t> bytes;
    for (std::size_t i = 1; i < golden.text.size(); ++i) bytes.push_back(i);
    EXPECT_EQ(read_answer(golden.options, golden.text, bytes), whole)
        << golden.what << ", byte by byte\n"
        << read_answer(golden.options, golden.text, bytes).describe();
    for (const std::size_t cut : bytes) {
        ASSERT_EQ(read_answer(golden.options, golden.text, {cut}), whole)
            << golden.what << ", cut at " << cut;
    }
}

void check(const Golden& golden) {
    const ReadAnswer whole = read_answer(golden.options, golden.text);
    EXPECT_EQ(whole.content, golden.expected.content) << golden.what;
    EXPECT_EQ(whole.reasoning, golden.expected.reasoning) << golden.what;
    ASSERT_EQ(whole.calls.size(), golden.expected.calls.size()) << golden.what << "\n"
                                                                << whole.describe();
    for (std::size_t i = 0; i < whole.calls.size(); ++i) {
        const auto& [name, arguments] = golden.expected.calls[i];
        EXPECT_EQ(whole.calls[i].name, name) << golden.what;
        EXPECT_TRUE(whole.calls[i].complete) << golden.what;
        EXPECT_EQ(ordered_json::parse(whole.calls[i].arguments, nullptr, false),
                  ordered_json::parse(arguments))
            << golden.what << ": " << whole.calls[i].arguments;
    }
    expect_same_for_every_cut(golden, whole);
}

const std::pair<std::string, std::string> kParis = {"get_weather", R"({"city": "Paris"})"};
const std::pair<std::string, std::string> kAdd = {"add", R"({"numbers": [1, 2.5]})"};

TEST(AnswerParser, HermesJsonBetweenTags) {
    const auto hermes = reading("hermes", "think");
    const std::string paris =
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
        "</tool_call>";
    const std::string add =
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"numbers\": [1, 2.5]}}\n</tool_call>";
    check({"one", hermes, paris, {"", "", {kParis}}});
    check({"two", hermes, paris + "\n" + add, {"", "", {kParis, kAdd}}});
    check({"text before", hermes, "Let me see.\n\n" + paris, {"Let me see.", "", {kParis}}});
    check({"thought before",
           hermes,
           "<think>\nHm <tool_call>.\n</think>\n\n" + paris,
           {"", "Hm <tool_call>.", {kParis}}});
    check({"arguments first",
           hermes,
           R"(<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>)",
           {"", "", {kParis}}});
    check({"parameters, and more members",
           hermes,
           R"(<tool_call>{"id": 7, "name": "get_weather", "x": [{}], "parameters": )"
           R"({"city": "Paris"}, "y": null}</tool_call>)",
           {"", "", {kParis}}});
    check(
        {"arguments as text",
         hermes,
         R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>)",
         {"", "", {kParis}}});
    check({"no arguments",
           hermes,
           "<tool_call>{\"name\": \"now\"}</tool_call>",
           {"", "", {{"now", "{}"}}}});
    check({"empty arguments",
           hermes,
           "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
           {"", "", {{"now", "{}"}}}});
    check({"the last brace is missing",
           hermes,
           R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}</tool_call>)",
           {"", "", {kParis}}});
    check({"the end is missing",
           hermes,
           R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"})",
           {"", "", {kParis}}});
    check({"a line end inside a string",
           hermes,
           "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\nris\"}}"
           "</tool_call>",
           {"", "", {{"get_weather", R"({"city": "Pa\nris"})"}}}});
    check(
        {"the end tag inside a string",
         hermes,
         R"(<tool_call>{"name": "get_weather", "arguments": {"city": "</tool_call>"}}</tool_call>)",
         {"", "", {{"get_weather", R"({"city": "</tool_call>"})"}}}});
    check({"text behind", hermes, "a" + paris + "\nb", {"a\n\nb", "", {kParis}}});
}

TEST(AnswerParser, ArgumentsMayEndWithAnyValue) {
    const auto hermes = reading("hermes", "think");
    for (const std::string value : {"4", "-2.5e3", "true", "null", "\"s\"", "[1]", "[]",
                                    "{\"b\":4}", "{}", "4 ", "[2,[3,4]]", "{\"b\":{\"c\":1}}"}) {
        const std::string arguments = "{\"a\":" + value + "}";
        const std::string behind = R"(<tool_call>{"name":"f","arguments":)" + arguments;
        check({value, hermes, behind + "}</tool_call>", {"", "", {{"f", arguments}}}});
        check({value + ", and more",
               hermes,
               behind + R"(,"id":7}</tool_call>)",
               {"", "", {{"f", arguments}}}});
        check({value + ", name last",
               hermes,
               R"(<tool_call>{"arguments":)" + arguments + R"(,"name":"f"}</tool_call>)",
               {"", "", {{"f", arguments}}}});
    }
}

TEST(AnswerParser, WhatIsMalformedIsContent) {
    const auto hermes = reading("hermes");
    for (const char* text :
         {"<tool_call>nothing</tool_call>", "<tool_call>", "a <tool_call", "{\"name\": \"now\"}",
          "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"arguments\": {}}</tool_call>",
          "<tool_call>{\"name\": \"\"}</tool_call>", "<tool_call>[]</tool_call>",
          "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", "  ", "\n</tool_call>",
          "<tool_call>{'name': 'now'}</tool_call>", "x < y << z <t <tool <tool_cal l>"}) {
        check({text, hermes, text, {text, "", {}}});
    }
    // The second opener is no part of what broke off.
    check({"opened twice",
           hermes,
           "<tool_call><tool_call>{\"name\": \"now\"}</tool_call>",
           {"<tool_call>", "", {{"now", "{}"}}}});
}

TEST(AnswerParser, ACallThatBreaksOffIsContentWhole) {
    const std::string text =
        R"(Look: <tool_call>{"name": "get_weather", "arguments": {"city": oops}}</tool_call> so)";
    const ReadAnswer answer = read_answer(reading("hermes"), text);
    EXPECT_EQ(answer.content, text);
    ASSERT_EQ(answer.calls.size(), 1U);
    EXPECT_FALSE(answer.calls[0].complete);
    std::vector<OutputPart> parts;
    AnswerParser parser(reading("hermes"));
    parser.push(text, parts);
    parser.finish(false, parts);
    drop_broken_calls(parts);
    ReadAnswer whole;
    whole.add(parts);
    EXPECT_TRUE(whole.calls.empty());
    EXPECT_EQ(whole.content, text);
}

TEST(AnswerParser, ACallThatIsCutByLengthStaysAsFarAsItCame) {
    const std::string text = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)";
    const ReadAnswer cut = read_answer(reading("hermes"), text, {}, true);
    EXPECT_EQ(cut.content, "");
    ASSERT_EQ(cut.calls.size(), 1U);
    EXPECT_EQ(cut.calls[0].arguments, R"({"city": "Par)");
    EXPECT_FALSE(cut.calls[0].complete);
    const ReadAnswer ended = read_answer(reading("hermes"), text, {}, false);
    EXPECT_EQ(ended.content, text);
}

TEST(AnswerParser, ArgumentsArePassedOnAsTheyCome) {
    AnswerParser parser(reading("hermes"));
    const auto push = [&](std::string_view text) {
        std::vector<OutputPart> parts;
        parser.push(text, parts);
        ReadAnswer answer;
        answer.add(parts);
        return answer;
    };
    EXPECT_TRUE(push("<tool_call>{\"name\": \"get_weather\", \"arguments\": ").calls.empty());
    ReadAnswer begun = push("{\"ci");
    ASSERT_EQ(begun.calls.size(), 1U);
    EXPECT_EQ(begun.calls[0].name, "get_weather");
    EXPECT_EQ(begun.calls[0].id.substr(0, 5), "call_");
    EXPECT_EQ(begun.calls[0].id.size(), 29U);
    EXPECT_EQ(begun.calls[0].arguments, "{\"ci");
    EXPECT_EQ(push("ty\": \"Pa").calls[0].arguments, "ty\": \"Pa");
    const ReadAnswer end = push("ris\"}");
    EXPECT_EQ(end.calls[0].arguments, "ris\"}");
    EXPECT_TRUE(end.calls[0].complete);
}

TEST(AnswerParser, Qwen3CoderATagForEachArgument) {
    const auto coder = reading("qwen3_coder", "think");
    const std::string paris =
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n"
        "</tool_call>";
    check({"one", coder, paris, {"", "", {kParis}}});
    check({"two", coder, "Hm.\n" + paris + "\n" + paris, {"Hm.", "", {kParis, kParis}}});
    check(
        {"types by the schema",
         coder,
         "<tool_call>\n<function=get_weather>\n<parameter=city>\n5\n</parameter>\n"
         "<parameter=days>\n5\n</parameter>\n<parameter=note>\nnull\n</parameter>\n"
         "<parameter=deep>\n{\"a\": [1]}\n</parameter>\n<parameter=other>\n[1, 2\n</parameter>\n"
         "</function>\n</tool_call>",
         {"",
          "",
          {{"get_weather",
            R"({"city": "5", "days": 5, "note": null, "deep": {"a": [1]}, "other": "[1, 2"})"}}}});
    check({"any text in a string",
           coder,
           "<tool_call>\n<function=get_weather>\n<parameter=city>\n\nif a < b:\n  \"x\" </par\n\n"
           "</parameter>\n</function>\n</tool_call>",
           {"", "", {{"get_weather", R"({"city": "\nif a < b:\n  \"x\" </par\n"})"}}}});
    check({"the parameter's end tag is missing",
           coder,
           "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n"
           "</function>\n</tool_call>",
           {"", "", {{"get_weather", R"({"city": "Paris", "days": 3})"}}}});
    check({"no parameters",
           coder,
           "<tool_call>\n<function=now>\n</function>\n</tool_call>",
           {"", "", {{"now", "{}"}}}});
    check({"a call ends the thought",
           reading("qwen3_coder", "think", true),
           "Hm.\n" + paris,
           {"", "Hm.", {kParis}}});
    check({"malformed", coder, "<function=get_weather> hello", {"<function=get_weather> hello"}});
}

TEST(AnswerParser, Llama3JsonIsTheWholeAnswer) {
    const auto llama = reading("llama3_json");
    const std::string paris = R"({"name": "get_weather", "parameters": {"city": "Paris"}})";
    check({"one", llama, paris, {"", "", {kParis}}});
    check({"with a type",
           llama,
           R"({"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}})",
           {"", "", {kParis}}});
    check({"behind the tag", llama, "<|python_tag|>" + paris, {"", "", {kParis}}});
    check({"two", llama, paris + "; " + paris, {"", "", {kParis, kParis}}});
    check({"built in",
           llama,
           "<|python_tag|>brave_search.call(query=\"x (y)\")",
           {"", "", {{"brave_search", R"json({"query": "x (y)"})json"}}}});
    check({"code", llama, "<|python_tag|>print(\"x\")", {"<|python_tag|>print(\"x\")"}});
    for (const std::string text : {R"({"name": "unknown", "parameters": {}})", R"({"answer": 42})",
                                   "A {\"name\": 1}", "Say {\"name\": \"now\"}"}) {
        check({text, llama, text, {text}});
    }
}

TEST(AnswerParser, MistralsThreeForms) {
    const auto mistral = reading("mistral", "mistral");
    check(
        {"list",
         mistral,
         R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "123456789"})"
         R"(, {"name": "add", "arguments": {"numbers": [1, 2.5]}, "id": "abcdefghi"}])",
         {"", "", {kParis, kAdd}}});
    check(
        {"name and arguments",
         mistral,
         R"(Hm.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]add[ARGS]{"numbers": [1, 2.5]})",
         {"Hm.", "", {kParis, kAdd}}});
    check({"thought",
           mistral,
           R"([THINK]Well.[/THINK][TOOL_CALLS]now[ARGS]{})",
           {"", "Well.", {{"now", "{}"}}}});
    const ReadAnswer with_id =
        read_answer(mistral, R"([TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"})");
    ASSERT_EQ(with_id.calls.size(), 1U);
    EXPECT_EQ(with_id.calls[0].id, "a1b2c3d4e");
    const ReadAnswer own = read_answer(mistral, "[TOOL_CALLS]now[ARGS]{}");
    ASSERT_EQ(own.calls.size(), 1U);
    EXPECT_EQ(own.calls[0].id.size(), 9U);
    check({"malformed", mistral, "[TOOL_CALLS]a b c{}", {"[TOOL_CALLS]a b c{}"}});
}

TEST(AnswerParser, HarmonyChannels) {
    const auto harmony = reading("harmony");
    const std::string thought = "<|channel|>analysis<|message|>Let me look.<|end|>";
    const std::string call =
        "<|start|>assistant<|channel|>commentary to=functions.get_weather "
        "<|constrain|>json<|message|>{\"city\": \"Paris\"}";
    check({"final",
           harmony,
           thought + "<|start|>assistant<|channel|>final<|message|>Yes.",
           {"Yes.", "Let me look.", {}}});
    check({"call", harmony, thought + call, {"", "Let me look.", {kParis}}});
    check({"its end", harmony, thought + call + "<|call|>", {"", "Let me look.", {kParis}}});
    check({"the recipient first",
           harmony,
           " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": "
           "\"Paris\"}",
           {"", "", {kParis}}});
    check({"preamble",
           harmony,
           "<|channel|>commentary<|message|>I look.<|end|>" + call,
           {"I look.", "", {kParis}}});
    check({"a bare name on analysis",
           harmony,
           "<|channel|>analysis to=now<|message|>{}",
           {"", "", {{"now", "{}"}}}});
    check({"a tool that nobody gave",
           harmony,
           "<|channel|>analysis to=python code<|message|>print(1)<|end|>"
           "<|start|>assistant<|channel|>final<|message|>1",
           {"1", "print(1)", {}}});
    check({"no channels", harmony, "Hello.", {"Hello."}});
    AnswerParser::Options without = harmony;
    without.tools = nullptr;
    check({"no tools",
           without,
           thought + "<|start|>assistant<|channel|>final<|message|>Yes.",
           {"Yes.", "Let me look.", {}}});
}

TEST(AnswerParser, DeepSeeksForms) {
    const auto deepseek = reading("deepseek", "think", true);
    check({"R1",
           deepseek,
           "Hm.\n</"
           "think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
           "get_weather\n"
           "```json\n{\"city\": "
           "\"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
           "<｜tool▁sep｜>add\n```json\n{\"numbers\": [1, 2.5]}\n```<｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>",
           {"", "Hm.", {kParis, kAdd}}});
    check({"V3.1",
           reading("deepseek"),
           "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"
           "\"city\": \"Paris\"}"
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
           {"Well.", "", {kParis}}});
    check({"V3.2",
           reading("deepseek_v32", "think", true),
           "Hm.<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
           "<｜DSML｜parameter name=\"city\" string=\"true\">7</｜DSML｜parameter>\n"
           "<｜DSML｜parameter name=\"x\" string=\"false\">7</｜DSML｜parameter>\n"
           "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
           {"", "Hm.", {{"get_weather", R"({"city": "7", "x": 7})"}}}});
}

TEST(AnswerParser, TheOtherFamilies) {
    check({"glm",
           reading("glm45", "think"),
           "<think>a</think>\n<tool_call>get_weather\n<arg_key>city</"
           "arg_key>\n<arg_value>Paris"
           "</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</"
           "tool_call>",
           {"", "a", {{"get_weather", R"({"city": "Paris", "days": 2})"}}}});
    check({"glm without lines",
           reading("glm45"),
           "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></"
           "tool_call>"
           "<tool_call>now</tool_call>",
           {"", "", {kParis, {"now", "{}"}}}});
    check({"minimax",
           reading("minimax_m2"),
           "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
           "name=\"city\">Paris"
           "</parameter>\n</invoke>\n</minimax:tool_call>",
           {"", "", {kParis}}});
    check(
        {"gemma",
         reading("gemma4", "gemma4"),
         "<|channel>thought\nHm.<channel|>So.<|tool_call>call:get_weather{city:<|\"|>"
         "Pa\"ris"
         "<|\"|>,days:3,on:true,deep:{a:[1,null],b:{}}}<tool_call|>",
         {"So.",
          "Hm.",
          {{"get_weather",
            R"({"city": "Pa\"ris", "days": 3, "on": true, "deep": {"a": [1, null], "b": {}}})"}}}});
    check({"function gemma",
           reading("gemma4"),
           "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_"
           "function_call>",
           {"", "", {kParis}}});
    check({"granite",
           reading("granite"),
           R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}])",
           {"", "", {kParis}}});
    check(
        {"phi",
         reading("phi4"),
         R"(functools[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "add", "arguments": {"numbers": [1, 2.5]}}])",
         {"", "", {kParis, kAdd}}});
    check({"command r",
           reading("command_r", "command_r"),
           R"(<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}
]<|END_ACTION|>)",
           {"", "Hm.", {kParis}}});
    check({"pythonic",
           reading("pythonic"),
           R"([get_weather(city='Pa\'ris', note=None, deep={"a": (1, True)}), now()])",
           {"",
            "",
            {{"get_weather", R"({"city": "Pa'ris", "note": null, "deep": {"a": [1, true]}})"},
             {"now", "{}"}}}});
    for (const std::string text :
         {"[link](https://x)", "[unknown(a=1)]", "[1, 2]", "[get_weather("}) {
        check({text, reading("pythonic"), text, {text}});
    }
    check({"seed",
           reading("seed_oss", "seed_oss"),
           "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=get_weather>\n"
           "<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
           {"", "Hm.", {kParis}}});
    check({"generic",
           reading("generic"),
           R"({"name": "get_weather", "arguments": {"city": "Paris"}})",
           {"", "", {kParis}}});
}

TEST(AnswerParser, KimisIdIsItsOwn) {
    const auto kimi = reading("kimi_k2", "think", true);
    const std::string text =
        "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        "<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|>"
        "<|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{\"numbers\": "
        "[1, 2.5]}"
        "<|tool_call_end|><|tool_calls_section_end|>";
    check({"kimi", kimi, text, {"", "Hm.", {kParis, kAdd}}});
    const ReadAnswer answer = read_answer(kimi, text);
    ASSERT_EQ(answer.calls.size(), 2U);
    EXPECT_EQ(answer.calls[0].id, "functions.get_weather:0");
    EXPECT_EQ(answer.calls[1].id, "functions.add:1");
}

TEST(AnswerParser, Thoughts) {
    const auto qwen = reading("none", "think");
    check({"closed", qwen, "\n<think>\n a b \n</think>\n\nYes.\n", {"Yes.\n", "a b", {}}});
    check({"open when it begins",
           reading("none", "think", true),
           "a\n</think>\nYes.",
           {"Yes.", "a", {}}});
    check({"never closed", qwen, "<think>\na", {"", "a", {}}});
    check({"empty", qwen, "<think>\n\n</think>\n\nYes.", {"Yes.", "", {}}});
    check({"not at the beginning", qwen, "Write <think>x</think>.", {"Write <think>x</think>."}});
    check({"gemma's empty ones",
           reading("none", "gemma4"),
           "a <|channel>thought\n<channel|>b",
           {"a b", "", {}}});
}

TEST(AnswerParser, IdsDependOnTheSeedAndTheCallAlone) {
    const std::string text = "<tool_call>{\"name\": \"now\"}</tool_call>";
    const ReadAnswer two = read_answer(reading("hermes"), text + text);
    ASSERT_EQ(two.calls.size(), 2U);
    EXPECT_NE(two.calls[0].id, two.calls[1].id);
    EXPECT_EQ(read_answer(reading("hermes"), text + text), two);
    auto other = reading("hermes");
    other.id_seed = 8;
    EXPECT_NE(read_answer(other, text).calls[0].id, two.calls[0].id);
}

// Pieces of every family's forms, in any order, with words in between that must all
// come out.
std::string random_text(base::Random& random, std::vector<std::string>& words) {
    static const std::vector<std::string> kPieces = {
        "{\"name\": \"now\", \"arguments\": {",
        "}",
        "}}",
        "{",
        "[",
        "]",
        "\"",
        "(",
        ")",
        "[now(",
        "a=1",
        "\"city\": \"x\"",
        ",",
        ":",
        "\n",
        " ",
        "<function=now>",
        "<parameter=city>",
        "</parameter>",
        "</function>",
        "<invoke name=\"now\">",
        "get_weather",
        "\n```json\n",
        "call:now{",
        "=",
        "'",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        ">",
        "<think>",
        "</think>",
        "\\",
        "functions.now:0",
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        "ä",
        "[TOOL_CALLS]now[ARGS]{\"a\": 1}",
        "true",
        "7",
        "{\"name\": \"now\", "};
    std::string text;
    for (std::uint64_t left = 1 + random.below(24); left > 0; --left) {
        const auto& format = tool_formats()[random.below(tool_formats().size())];
        const std::uint64_t kind = random.below(4);
        if (kind == 0 && !format.markers.empty()) {
            text += format.markers[random.below(format.markers.size())];
        } else if (kind == 1) {
            words.push_back("w" + std::to_string(100 + words.size()));
            text += words.back();
        } else {
            text += kPieces[random.below(kPieces.size())];
        }
    }
    return text;
}

TEST(AnswerParser, AnyTextIsReadAlikeHoweverItIsCutAndLosesNoWords) {
    for (std::uint64_t seed = 0; seed < (kSanitized ? 250 : 4000); ++seed) {
        base::Random random(seed);
        std::vector<std::string> words;
        const std::string text = random_text(random, words);
        const auto& format = tool_formats()[random.below(tool_formats().size())];
        auto options = reading(format.name, random.chance(0.5) ? "think" : "", random.chance(0.2));
        if (options.format.reasoning == nullptr) options.in_thought = false;
        std::vector<std::size_t> cuts;
        for (std::size_t i = 1; i < text.size(); ++i) {
            if (random.chance(0.3)) cuts.push_back(i);
        }
        const bool cut = random.chance(0.3);
        const ReadAnswer whole = read_answer(options, text, {}, cut);
        ASSERT_EQ(read_answer(options, text, cuts, cut), whole)
            << "seed " << seed << ", " << format.name << "\n"
            << text;
        std::string all = whole.content + whole.reasoning;
        for (const ReadCall& call : whole.calls) {
            all += call.name + call.arguments + call.id;
            ASSERT_TRUE(!call.complete ||
                        ordered_json::parse(call.arguments, nullptr, false).is_object())
                << "seed " << seed << "\n"
                << call.arguments;
        }
        if (format.name == "harmony") continue;  // headers are no text
        for (const std::string& word : words) {
            ASSERT_NE(all.find(word), std::string::npos)
                << "seed " << seed << ", " << format.name << "\n"
                << text << "\n"
                << whole.describe();
        }
    }
}

TEST(AnswerParser, AnyBytesAreReadAlikeHoweverTheyAreCut) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        base::Random random(seed);
        std::string text;
        for (std::uint64_t left = random.below(60); left > 0; --left) {
            text += static_cast<char>(random.below(256));
        }
        const auto& format = tool_formats()[seed % tool_formats().size()];
        const auto options = reading(format.name);
        const ReadAnswer whole = read_answer(options, text);
        std::vector<std::size_t> bytes;
        for (std::size_t i = 1; i < text.size(); ++i) bytes.push_back(i);
        ASSERT_EQ(read_answer(options, text, bytes), whole) << "seed " << seed;
        if (format.name == "harmony" || !whole.calls.empty()) continue;
        ASSERT_EQ(whole.content, text) << "seed " << seed;
    }
}

}  // namespace
}  // namespace helix::text::answer_parser_test
