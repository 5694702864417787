#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/template/chat_template.h"

namespace helix::text::template_chat_test {

namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string print(std::string_view source, const ordered_json& context = ordered_json::object()) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return "PARSE ERROR " + parsed.error().message;
    const auto rendered = (*parsed)->render(context);
    return rendered.ok() ? *rendered : "ERROR " + rendered.error().message;
}

std::string parse_error(std::string_view source) {
    const auto parsed = ChatTemplate::parse(source);
    return parsed.ok() ? "no error" : parsed.error().message;
}

std::string render_error(std::string_view source, const jinja::RenderLimits& limits = {}) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return "PARSE ERROR " + parsed.error().message;
    const auto rendered = (*parsed)->render(ordered_json::object(), {}, limits);
    return rendered.ok() ? "no error" : rendered.error().message;
}

TEST(ChatTemplate, ConversationIsBuiltAsTransformersDoes) {
    const auto parsed = ChatTemplate::parse(
        "{{ bos_token }}{{ tools is none }}{{ documents is none }}{{ messages[0].content }}{{ "
        "level }}"
        "{{ strftime_now('%Y-%m-%d') }}{{ '>' if add_generation_prompt }}{{ eos_token }}");
    ASSERT_TRUE(parsed.ok());
    ChatRequest request;
    request.messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
    request.bos_token = "<s>";
    request.eos_token = "</s>";
    request.extra["level"] = 3;
    request.now.tm_year = 126;
    request.now.tm_mon = 10;
    request.now.tm_mday = 21;
    const auto prompt = (*parsed)->render_chat(request);
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_EQ(*prompt, "<s>TrueTruehi32026-11-21></s>");
}

TEST(ChatTemplate, RaisedMessageIsTheErrorAsItStands) {
    EXPECT_EQ(print("\n\n{{ raise_exception('roles must alternate') }}"),
              "ERROR roles must alternate");
}

TEST(TemplateWhitespace, BlockTagsTakeTheirLine) {
    EXPECT_EQ(print("a\n  {% if true %}\n  b\n  {% endif %}\nc"), "a\n  b\nc");
    EXPECT_EQ(print("a\n  {%+ if true %}\nb{% endif %}"), "a\n  b");
    EXPECT_EQ(print("a {% if true +%}\nb{% endif %}"), "a \nb");
}

TEST(TemplateWhitespace, MinusTakesAllSpaceOnItsSide) {
    EXPECT_EQ(print("a \n {{- 1 -}} \n\n b"), "a1b");
    EXPECT_EQ(print("a \n {#- note -#} \n b"), "ab");
    EXPECT_EQ(print("a {%- raw -%} {{ x }} {%- endraw -%} b"), "a{{ x }}b");
}

TEST(TemplateWhitespace, OneNewlineAtTheEndGoes) {
    EXPECT_EQ(print("a\n"), "a");
    EXPECT_EQ(print("a\r\n\n"), "a\n");
}

TEST(TemplateValues, PrintAsPythonPrintsThem) {
    EXPECT_EQ(print("{{ [none, true, 1.0, 'a\\'b', 1e22, {'k': (1,)}] }}"),
              "[None, True, 1.0, \"a'b\", 1e+22, {'k': (1,)}]");
    EXPECT_EQ(print("{{ 'Grüße'[1:3] ~ 'Grüße'|length ~ 'Grüße'[::-1] }}"), "rü5eßürG");
}

TEST(TemplateValues, JsonKeepsUnicodeAndOrder) {
    const ordered_json context =
        ordered_json::parse(R"({"x": {"z": "ü\n\"", "a": [1.5, null, true, {}]}})");
    EXPECT_EQ(print("{{ x|tojson }}", context), R"({"z": "ü\n\"", "a": [1.5, null, true, {}]})");
    EXPECT_EQ(print("{{ x.a|tojson(indent=1) }}", context), "[\n 1.5,\n null,\n true,\n {}\n]");
}

TEST(TemplateValues, ListsAndDictsCannotBeChanged) {
    EXPECT_THAT(print("{% set l = [] %}{{ l.append(1) }}"),
                HasSubstr("'append' of 'list' object is unsafe"));
    EXPECT_THAT(print("{{ {}.update({'a': 1}) }}"),
                HasSubstr("'update' of 'dict' object is unsafe"));
}

TEST(TemplateScopes, LoopsKeepTheirVariablesAndNamespacesDoNot) {
    EXPECT_EQ(
        print("{% set x = 0 %}{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set x = i %}"
              "{% set ns.x = i %}{% endfor %}{{ x }}{{ ns.x }}"),
        "02");
}

TEST(TemplateErrors, SyntaxErrorsNameLineFoundAndExpected) {
    EXPECT_EQ(parse_error("a\n{{ 1 + }}"),
              "chat template, line 2: expected an expression, found '}}'");
    EXPECT_EQ(parse_error("{% if x %}\n\nb"),
              "chat template, line 3: expected 'elif' or 'else' or 'endif' for the 'if' of line 1, "
              "found the end of the "
              "template");
    EXPECT_EQ(parse_error("\n{% for x on y %}"),
              "chat template, line 2: expected 'in', found 'on'");
    EXPECT_EQ(parse_error("{% for x in y %}\n{% endif %}"),
              "chat template, line 2: unknown tag 'endif' inside the 'for' of line 1");
    EXPECT_EQ(parse_error("\n\n{% include 'x' %}"), "chat template, line 3: unknown tag 'include'");
    EXPECT_EQ(parse_error("{{ (1] }}"), "chat template, line 1: unexpected ']', expected ')'");
    EXPECT_EQ(parse_error("{{ 'abc }}"),
              "chat template, line 1: this string has no end: expected '");
    EXPECT_EQ(parse_error("{# abc"),
              "chat template, line 1: this comment has no end: expected '#}'");
    EXPECT_EQ(parse_error("{% break %}"), "chat template, line 1: 'break' outside a loop");
    EXPECT_EQ(parse_error("{{ 99999999999999999999 }}"),
              "chat template, line 1: the integer 99999999999999999999 does not fit in 64 bits");
    EXPECT_EQ(parse_error("{{ '\xff' }}"), "chat template: the text is not valid UTF-8");
}

TEST(TemplateErrors, RenderingErrorsNameTheInnermostLine) {
    EXPECT_EQ(render_error("a\n{% for i in [1] %}\n{{ x.y }}\n{% endfor %}"),
              "chat template, line 3: 'x' is undefined");
    EXPECT_EQ(render_error("{{ 1|nope }}"),
              "chat template, line 1: there is no filter named 'nope'");
    EXPECT_EQ(render_error("{{ 1 is nope }}"),
              "chat template, line 1: there is no test named 'nope'");
    EXPECT_EQ(render_error("\n{{ 1 + 'a' }}"),
              "chat template, line 2: unsupported operand types for +: 'int' and 'str'");
    EXPECT_EQ(render_error("{% macro m(a) %}{% endmacro %}\n{{ m(1, 2) }}"),
              "chat template, line 2: macro 'm' takes not more than 1 argument(s), got 2");
    EXPECT_EQ(render_error("{{ 'abc'.split('') }}"),
              "chat template, line 1: split: empty separator");
    EXPECT_EQ(render_error("{{ {}.a.b }}"),
              "chat template, line 1: 'dict object' has no attribute 'a'");
}

TEST(TemplateLimits, EndlessWorkIsAnError) {
    const char* endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    jinja::RenderLimits limits;
    limits.steps = 100'000;
    EXPECT_THAT(render_error(endless, limits), HasSubstr("more than 100000 steps"));
    EXPECT_THAT(render_error("{{ range(1000000) }}"),
                HasSubstr("a range of more than 100000 items"));
}

TEST(TemplateLimits, LongTextIsAnError) {
    EXPECT_THAT(render_error("{{ 'abc' * 1000000000000 }}"), HasSubstr("a string of more than"));
    EXPECT_THAT(render_error("{{ '%999999999999d' % 1 }}"), HasSubstr("a string of more than"));
    EXPECT_THAT(render_error("{{ 'a'.center(9999999999) }}"), HasSubstr("a string of more than"));
    EXPECT_THAT(render_error("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}"),
                HasSubstr("a string of more than"));
    jinja::RenderLimits limits;
    limits.output_bytes = 10;
    EXPECT_THAT(render_error("{% for i in range(99) %}abc{% endfor %}", limits),
                HasSubstr("the output is longer than 10"));
}

TEST(TemplateLimits, DeepNestingIsAnError) {
    EXPECT_THAT(render_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
                HasSubstr("nested more than 400 deep"));
    EXPECT_THAT(render_error("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l "
                             "= [ns.l] %}{% endfor %}"),
                HasSubstr("containers nested more than 64 deep"));
    EXPECT_THAT(parse_error("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
                HasSubstr("nested more than 60 deep"));
    std::string sum = "1";
    for (int i = 0; i < 5000; ++i) sum += "+1";
    EXPECT_THAT(parse_error("{{ " + sum + " }}"), HasSubstr("more than 150 levels"));
    std::string blocks;
    for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
    EXPECT_THAT(parse_error(blocks), HasSubstr("blocks are nested more than 60 deep"));
}

TEST(TemplateLimits, ValuesThatHoldThemselvesAreReleased) {
    EXPECT_EQ(
        print("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns] %}"
              "{% macro m() %}{{ ns.me.me is defined }}{% endmacro %}{% set ns.m = m %}{{ m() }}"),
        "True");
    EXPECT_THAT(print("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}"),
                StartsWith("ERROR"));
}

}  // namespace

}  // namespace helix::text::template_chat_test
