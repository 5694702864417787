#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar_helpers.h"
#include "schema_checker.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/matcher.h"

namespace helix::text::grammar::json_schema_test {
namespace {

using test::matches;

base::Result<std::shared_ptr<const Automaton>> compile(std::string_view schema) {
    TRY(const Grammar grammar, json_schema_grammar(schema));
    return Automaton::build(grammar);
}

struct Case {
    const char* schema;
    std::vector<std::string> yes;
    std::vector<std::string> no;
};

void check(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
        const auto automaton = compile(c.schema);
        if (c.yes.empty()) {
            EXPECT_FALSE(automaton.ok()) << c.schema;
            continue;
        }
        ASSERT_TRUE(automaton.ok()) << c.schema << ": " << automaton.error().message;
        const auto schema = test::Json::parse(c.schema);
        for (const auto& text : c.yes) {
            EXPECT_TRUE(matches(*automaton, text)) << c.schema << " " << text;
            const auto value = test::Json::parse(text, nullptr, false);
            ASSERT_FALSE(value.is_discarded()) << text;
            EXPECT_TRUE(test::satisfies(value, schema, schema)) << c.schema << " " << text;
        }
        for (const auto& text : c.no) {
            EXPECT_FALSE(matches(*automaton, text)) << c.schema << " " << text;
        }
    }
}

TEST(JsonSchema, ScalarTypes) {
    check({
        {R"({"type":"null"})", {"null"}, {"nul", "0", "", " null"}},
        {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
        {R"({"type":"integer"})",
         {"0", "-7", "123456789012345"},
         {"01", "1.5", "+1", "1e3", "--1"}},
        {R"({"type":"number"})",
         {"0", "-1.25", "3e5", "1.5E-10", "10"},
         {".5", "1.", "01", "1e", "NaN"}},
        {R"({"type":"number","minimum":0})", {"0", "1.5", "9e9"}, {"-1", "-0.5"}},
        {R"({"type":["string","null"]})", {"null", R"("a")"}, {"1", "true"}},
        {R"({"type":"string","nullable":true})", {"null", R"("a")"}, {"1"}},
        {R"({"type":["integer","number"]})", {"1", "1.5"}, {R"("1")"}},
        {"{}", {"null", "1", "[]", "{}", R"({"a":[1,{"b":"c"}]})"}, {"", "x"}},
        {"true", {"1", "[[]]"}, {"[1,]"}},
    });
}

TEST(JsonSchema, Strings) {
    check({
        {R"({"type":"string"})",
         {R"("")", R"("a b")", R"("\n\"\\\/")", "\"\\u00e9\\uD83D\\uDE00\"", "\"\xE2\x82\xAC\""},
         {"\"a", "a", "\"\n\"", R"("\x")", R"("\uD800")", R"("\uDC00")", "\"\xFF\""}},
        {R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("abc")", "\"\xE2\x82\xAC\xE2\x82\xAC\"", R"("\n\u0041")"},
         {R"("a")", R"("abcd")", R"("")"}},
        {R"({"minLength":1})", {R"("x")"}, {R"("")", "1"}},
        {R"({"type":"string","pattern":"^[a-z]{2}-\\d+$"})",
         {R"("ab-1")", R"("zz-007")"},
         {R"("ab-")", R"("a-1")", R"("ab-1x")", R"("xab-1")"}},
        {R"({"type":"string","pattern":"b+"})", {R"("b")", R"("abbc")"}, {R"("a")", R"("")"}},
        {R"({"type":"string","pattern":"^(\"|\\\\|\\n)*$"})",
         {R"("\"\\\n")", R"("")"},
         {"\"\n\"", R"("n")"}},
        {R"({"type":"string","pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("x")", R"("xa")"}},
        {R"({"type":"string","pattern":"^(?:\\w+\\.)*[^\\W\\d]?$"})",
         {R"("a1.b")", R"("")"},
         {R"("a.1")"}},
        {R"({"type":"string","pattern":"^.\\u0042\\x41\\/\\-$"})", {R"("xBA/-")"}, {R"("x")"}},
        {R"({"type":"string","pattern":"^a+?[\\s\\-_]$"})", {R"("aa ")", R"("a-")"}, {R"("a.")"}},
        {R"({"type":"string","format":"date"})",
         {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
         {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")"}},
        {R"({"type":"string","format":"date-time"})",
         {R"("2024-01-01T00:00:00Z")", R"("2024-01-01T23:59:59.123+02:00")"},
         {R"("2024-01-01 00:00:00Z")", R"("2024-01-01T24:00:00Z")"}},
        {R"({"type":"string","format":"time"})", {R"("12:30:00Z")"}, {R"("12:30")"}},
        {R"({"type":"string","format":"uuid"})",
         {R"("123e4567-e89b-12d3-a456-426614174000")"},
         {R"("123e4567e89b12d3a456426614174000")"}},
        {R"({"type":"string","format":"ipv4"})",
         {R"("192.168.0.255")"},
         {R"("256.1.1.1")", R"("1.2.3")"}},
        {R"({"type":"string","format":"email"})",
         {R"("a.b@example.org")"},
         {R"("a@b")", R"("@b.de")"}},
    });
}

TEST(JsonSchema, IntegerRangesAreExact) {
    const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {
        {0, 0},  {0, 9}, {1, 10},    {5, 123},     {-3, 3},    {-120, -7}, {99, 101},
        {-1, 0}, {7, 7}, {10, 1000}, {-250, 1234}, {100, 199}, {990, 1010}};
    for (const auto& [low, high] : ranges) {
        Grammar grammar;
        JsonRules json(grammar);
        grammar.root =
            grammar.add("root", integers_between(std::to_string(low), std::to_string(high)));
        const auto automaton = Automaton::build(grammar);
        ASSERT_TRUE(automaton.ok());
        for (std::int64_t n = -1500; n <= 1500; ++n) {
            ASSERT_EQ(matches(*automaton, std::to_string(n)), low <= n && n <= high)
                << n << " in " << low << " to " << high;
        }
        for (const char* bad : {"-0", "00", "007", "", "-", "+1"})
            EXPECT_FALSE(matches(*automaton, bad));
    }
    check({
        {R"({"type":"integer","minimum":18})", {"18", "100", "99999"}, {"17", "-20", "1"}},
        {R"({"type":"integer","maximum":-2})", {"-2", "-100"}, {"-1", "0", "2"}},
        {R"({"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":4})", {"2", "3"}, {"1", "4"}},
        {R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}},
    });
}

TEST(JsonSchema, Objects) {
    check({
        {R"({"type":"object"})",
         {"{}", R"({"a":1})", "{ \"a\" : 1 }", "{\n  \"a\": []\n}"},
         {"[]", R"({"a"})", R"({"a":1,})", "{  \"a\":1    }"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
             "required":["a","b"]})",
         {R"({"a":1,"b":"x"})", R"({"a": 1, "b": "x"})"},
         {R"({"b":"x","a":1})", R"({"a":1})", R"({"a":1,"b":"x","c":2})", "{}"}},
        {R"({"properties":{"a":true,"b":true,"c":true},"required":["b"]})",
         {R"({"b":1})", R"({"a":0,"b":1})", R"({"b":1,"c":2})", R"({"a":0,"b":1,"c":2})"},
         {"{}", R"({"a":0})", R"({"a":0,"c":2})", R"({,"b":1})"}},
        {R"({"properties":{"a":true,"b":true}})",
         {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"},
         {R"({"a":1,"a":1})", R"({"c":1})"}},
        {R"({"type":"object","additionalProperties":{"type":"integer"}})",
         {"{}", R"({"x":1,"yy":2})"},
         {R"({"x":"1"})"}},
        {R"({"properties":{"ab":{"const":1}},"additionalProperties":{"type":"string"}})",
         {"{}", R"({"ab":1})", R"({"ab":1,"a":"x","abc":"y","":"z"})", R"({"b":"x"})"},
         {R"({"ab":"x"})", R"({"\u0061b":"x"})", R"({"a":"x","ab":"y"})"}},
        {R"({"type":"object","properties":{"a":true},"additionalProperties":false})",
         {"{}", R"({"a":1})"},
         {R"({"b":1})"}},
        {R"({"properties":{"a":{"type":"null"}},"required":["a","z"]})",
         {R"({"a":null,"z":[1]})"},
         {R"({"a":null})"}},
        {R"({"properties":{"say \"hi\"\\":{"const":1}},"additionalProperties":true})",
         {R"({"say \"hi\"\\":1,"x":2})"},
         {R"({"say "hi"":1})"}},
        {R"({"type":"object","properties":{}})", {"{}"}, {"[]"}},
    });
}

TEST(JsonSchema, Arrays) {
    check({
        {R"({"type":"array"})", {"[]", "[1]", "[1, \"a\", [null]]"}, {"[1,]", "[,1]", "{}"}},
        {R"({"items":{"type":"integer"},"minItems":2,"maxItems":3})",
         {"[1,2]", "[1,2,3]"},
         {"[1]", "[1,2,3,4]", "[]", "[1,\"a\"]"}},
        {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
        {R"({"type":"array","items":{"type":"null"},"maxItems":1})",
         {"[]", "[null]"},
         {"[null,null]"}},
        {R"({"prefixItems":[{"type":"integer"},{"type":"string"}]})",
         {"[]", "[1]", R"([1,"a"])"},
         {R"(["a"])", R"([1,"a",2])"}},
        {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2,"items":false})",
         {R"([1,"a"])"},
         {"[1]", "[]"}},
        {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2,"maxItems":3})",
         {"[1,null]", "[1,null,null]"},
         {"[1]", "[1,null,null,null]", "[1,1]"}},
        {R"({"prefixItems":[{"type":"integer"},{"type":"integer"}],"maxItems":1})",
         {"[]", "[1]"},
         {"[1,2]"}},
        {R"({"type":"array","items":{"type":"array","items":{"type":"boolean"}}})",
         {"[]", "[[],[true,false]]"},
         {"[true]"}},
    });
}

TEST(JsonSchema, ValuesAndCombinations) {
    check({
        {R"({"enum":["red","green",1,null,{"a":[1.5]}]})",
         {R"("red")", "1", "null", R"({"a":[1.5]})"},
         {"red", "2", R"("re")"}},
        {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
        {R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("x")"}},
        {R"({"enum":[1,2],"const":2})", {"2"}, {"1"}},
        {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
         {"12", R"("a")"},
         {R"("ab")", "null"}},
        {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
        {R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"],
             "type":"object"},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
         {R"({"k":"a","x":1})", R"({"k":"b"})"},
         {R"({"k":"a"})", R"({"k":"b","x":1})"}},
        {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
             {"properties":{"b":{"type":"null"}},"required":["b"]}]})",
         {R"({"a":1,"b":null})"},
         {R"({"a":1})"}},
        {R"({"allOf":[{"$ref":"#/$defs/a"},{"properties":{"b":true}}],"$defs":{"a":{"type":"object",
             "properties":{"a":{"type":"integer"}},"required":["a"]}}})",
         {R"({"a":1})", R"({"a":1,"b":2})"},
         {R"({"b":2})"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
             "anyOf":[{"properties":{"b":{"type":"null"}},"required":["b"]},
                      {"properties":{"c":{"type":"null"}},"required":["c"]}]})",
         {R"({"a":1,"b":null})", R"({"a":1,"c":null})"},
         {R"({"a":1})"}},
        {R"({"type":"number","allOf":[{"type":["integer","string"]}]})", {"1"}, {"1.5", R"("a")"}},
        {R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},
             "next":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["v","next"]}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
         {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
        {R"({"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}})",
         {"{}", R"({"children":[{"children":[]},{}]})"},
         {R"({"children":[1]})"}},
        {R"({"definitions":{"a/b":{"const":1}},"$ref":"#/definitions/a~1b","description":"x"})",
         {"1"},
         {"2"}},
    });
}

TEST(JsonSchema, AsZodWritesThem) {
    check({
        {R"({"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991})",
         {"0", "-9007199254740991", "9007199254740991", "123456789"},
         {"9007199254740992", "-9007199254740992", "1.5", "90071992547409910"}},
        {R"({"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615})",
         {"-9223372036854775808", "18446744073709551615"},
         {"-9223372036854775809", "18446744073709551616"}},
        {R"({"type":"integer","exclusiveMinimum":0,"maximum":9007199254740991})",
         {"1", "9007199254740991"},
         {"0", "-1", "9007199254740992"}},
        {R"({"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
         {R"("a.b@example.org")"},
         {R"("a..b@example.org")", R"(".a@example.org")", R"("a@b")"}},
        {R"({"type":"string","format":"duration","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})",
         {R"("P3W")", R"("P1Y2M")", R"("PT5M")", R"("P1DT2H")"},
         {R"("P")", R"("PT")", R"("P1W2D")", R"("PT5M2W")"}},
        {R"({"type":"string","format":"uri"})",
         {R"("https://example.org/a?b=c#d")", R"("urn:isbn:123")", R"("mailto:a@b.c")",
          R"("http://[::1]:80/")"},
         {R"("example")", R"("//a")", R"("http://a b")", R"("1http://a")"}},
        {R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"number"}})",
         {"{}", R"({"a": 1.5})"},
         {R"({"a": "1"})"}},
        {R"({"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"null"}})",
         {"{}", R"({"a":null,"b":null})", R"({"b":null})"},
         {R"({"c":null})"}},
        {R"({"type":"array","items":[{"type":"string"},{"type":"integer"}],"additionalItems":false})",
         {"[]", R"(["a"])", R"(["a",1])"},
         {R"(["a",1,2])", "[1]"}},
        {R"({"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"null"}})",
         {R"(["a",null,null])"},
         {R"(["a","b"])"}},
        {R"({"not":{}})", {}, {"1"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"not":{}}},"required":["a"],
             "additionalProperties":false})",
         {R"({"a":1})"},
         {R"({"a":1,"b":1})"}},
        {R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {R"({"a":1})"}},
        {R"({"oneOf":[{"type":"object","properties":{"k":{"type":"string","const":"a"},"x":{"type":
             "integer"}},"required":["k","x"],"additionalProperties":false},{"type":"object",
             "properties":{"k":{"type":"string","const":"b"}},"required":["k"],
             "additionalProperties":false}]})",
         {R"({"k":"a","x":1})", R"({"k":"b"})"},
         {R"({"k":"a"})", R"({"k":"b","x":1})"}},
    });
}

TEST(JsonSchema, AsPydanticWritesThem) {
    check({
        {R"({"type":"number","exclusiveMinimum":0,"maximum":1.5})",
         {"0.5", "1", "1.5", "1.50", "0.0000001"},
         {"0", "0.0", "1.51", "2", "-1", "-0.5", "1e-3"}},
        {R"({"type":"number","minimum":-2.25,"exclusiveMaximum":10})",
         {"-2.25", "-2", "9.999", "0", "-0.0"},
         {"-2.26", "10", "10.0", "-3", "100"}},
        {R"({"type":"number","exclusiveMinimum":0})",
         {"1e-9", "0.1", "5E10"},
         {"0", "-1", "0.0e5"}},
        {R"({"type":"number","maximum":0})", {"0", "-1e5", "-0.5", "0.0"}, {"1", "0.1"}},
        {R"({"type":"integer","multipleOf":5})", {"0", "15", "-20"}, {"1", "12", "-3"}},
        {R"({"type":"number","multipleOf":0.01})",
         {"0.07", "1", "-2.5", "3.140"},
         {"0.001", "3.1415"}},
        {R"({"type":"string","format":"uri","minLength":1,"maxLength":20})",
         {R"("http://a.b/c")"},
         {R"("http://example.org/too/long")"}},
        {R"({"anyOf":[{"type":"number"},{"type":"string",
             "pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]})",
         {"1.5", R"("-1.50")", R"("7")"},
         {R"("-")", R"(".")", R"("")", R"("1.2.3")"}},
        {R"({"type":"string","format":"ipv6"})",
         {R"("::1")", R"("2001:db8::8a2e:370:7334")", R"("::ffff:1.2.3.4")", R"("1:2:3:4:5:6:7:8")",
          R"("::")", R"("1::")"},
         {R"("1:2:3")", R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")", R"("12345::")"}},
        {R"({"type":"array","items":{"enum":["a","b"]},"uniqueItems":true})",
         {"[]", R"(["b"])", R"(["b","a"])"},
         {R"(["a","a"])", R"(["c"])"}},
        {R"({"type":"string","format":"binary"})", {R"("\n")"}, {"1"}},
        {R"({"type":"object","patternProperties":{"^[a-z]+$":{"type":"integer"}}})",
         {"{}", R"({"a":1,"bc":2})"},
         {R"({"a":"1"})", R"({"A":1})"}},
        {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":300})",
         {R"("ab")", "\"" + std::string(300, 'x') + "\""},
         {R"("a")", R"("aB")", "\"" + std::string(301, 'x') + "\""}},
    });
}

TEST(JsonSchema, KeywordsOfObjects) {
    check({
        {R"({"properties":{"a":true,"b":true,"c":true},"minProperties":2})",
         {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
         {"{}", R"({"b":1})"}},
        {R"({"properties":{"a":true,"b":true,"c":true},"maxProperties":1})",
         {"{}", R"({"b":1})"},
         {R"({"a":1,"b":1})"}},
        {R"({"additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2})",
         {R"({"a":1})", R"({"a":1,"b":2})"},
         {"{}", R"({"a":1,"b":2,"c":3})"}},
        {R"({"properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}})",
         {"{}", R"({"b":1})", R"({"a":1,"b":1})"},
         {R"({"a":1})"}},
        {R"({"properties":{"a":{"type":"integer"},"b":true},"dependencies":{"a":["b"]}})",
         {R"({"b":1})", R"({"a":1,"b":1})"},
         {R"({"a":1})"}},
        {R"({"properties":{"a":true,"b":true},"if":{"properties":{"a":{"const":1}},"required":["a"]},
             "then":{"required":["b"]},"else":{"properties":{"b":false}}})",
         {R"({"a":1,"b":1})", R"({"a":2})", "{}"},
         {R"({"a":1})", R"({"b":1})", R"({"a":2,"b":2})"}},
        {R"({"properties":{"a":true,"b":true},"oneOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":1})"},
         {"{}", R"({"a":1,"b":1})"}},
        {R"({"properties":{"a":true,"b":true,"c":true},
             "oneOf":[{"required":["a","b"]},{"required":["c"]}]})",
         {R"({"a":1,"b":1})", R"({"c":1})", R"({"a":1,"c":1})"},
         {R"({"a":1})", R"({"a":1,"b":1,"c":1})"}},
        {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"additionalProperties":false},
             {"properties":{"a":true,"b":true}}]})",
         {"{}", R"({"a":1})"},
         {R"({"b":1})", R"({"a":1,"b":1})"}},
        {R"({"properties":{"a":{"type":"integer"}},"patternProperties":{"^x":{"type":"null"}},
             "additionalProperties":{"type":"boolean"}})",
         {R"({"a":1,"xy":null,"z":true})", R"({"xa":null})"},
         {R"({"xy":true})", R"({"z":null})", R"({"a":null})"}},
        {R"({"allOf":[{"maximum":3,"type":"integer"},{"maximum":4,"minimum":2}]})",
         {"2", "3"},
         {"1", "4"}},
        {R"({"type":"array","items":{"type":"integer"},"contains":{"const":7},"maxItems":3})",
         {"[7]", "[1,7]", "[7,7,1]"},
         {"[]", "[1]", "[1,2,3,7]"}},
        {R"({"enum":["a","ab","b",3],"pattern":"^a","maxLength":1})", {R"("a")", "3"}, {R"("ab")"}},
        {R"({"type":"string","not":{"enum":["a","b"]}})",
         {R"("c")", R"("ab")", R"("")"},
         {R"("a")", R"("b")"}},
        {R"({"type":"number","not":{"type":"integer"}})", {"1.5", "0.25"}, {"1", "1.0", "2"}},
        {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1.5"}, {"1"}},
        {R"({"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"l":{"$ref":
             "#/$defs/t"}}}},"allOf":[{"$ref":"#/$defs/t"},{"properties":{"w":{"type":"null"}}}]})",
         {R"({"v":1,"l":{"v":2,"l":{}},"w":null})"},
         {R"({"l":{"w":null}})"}},
        {R"({"type":"object","properties":{"a":{"type":"string"}},"readonly":true,"x-y":{},
             "unknownWord":[1]})",
         {R"({"a":"b"})"},
         {R"({"a":1})"}},
    });
}

TEST(JsonSchema, ErrorsNameKeywordAndPlace) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {R"({"properties":{"a":{"not":{}}},"required":["a"]})",
         "#/properties/a/not: nothing is left, so nothing can be written"},
        {R"({"items":{"uniqueItems":true}})",
         "#/items: keyword \"uniqueItems\" is supported only where the items are an enum of at "
         "most 7 values"},
        {R"({"anyOf":[{"type":"integer","multipleOf":0}]})",
         "#/anyOf/0: multipleOf must be above 0"},
        {R"({"multipleOf":0.12345678901})",
         "#: multipleOf 0.12345678901 has too many digits; at most 10000 without the point are "
         "supported"},
        {R"({"properties":{"a/b":{"type":"text"}}})",
         "#/properties/a~1b/type: type \"text\" is none of null, boolean, integer, number, string, "
         "array, object"},
        {R"({"type":"string","format":"regex"})", "#/format: format \"regex\" cannot be kept"},
        {R"({"type":"string","pattern":"(?<=a)z"})",
         "#/pattern: line 1, column 2: look-behind and flags are not supported, found '?'"},
        {R"({"pattern":"(a)\\1"})",
         "#/pattern: line 1, column 5: this escape is not supported; known are \\d \\w \\s \\D \\W "
         "\\S \\b \\B \\n \\t \\r \\f \\v \\0 \\xHH \\uHHHH and punctuation, found '1'"},
        {R"({"type":"string","pattern":"^a+$","maxLength":0})",
         "#: no text that matches is so short"},
        {R"({"type":"integer","minimum":5,"maximum":4})",
         "#: no integer is at least 5 and at most 4"},
        {R"({"$ref":"https://example.org/s"})",
         "#/$ref: \"https://example.org/s\" is outside of this schema; only references that begin "
         "with # are supported"},
        {R"({"properties":{"a":{"$ref":"#/$defs/x"}}})",
         "#/properties/a/$ref: there is no \"#/$defs/x\" in the schema"},
        {R"({"oneOf":[{"type":"string","format":"uri"},{"type":"string","format":"email"}]})",
         "#/oneOf: a value may match both [0] and [1]; use anyOf, or tell them apart by type or by "
         "a required property with different constants (#/oneOf/0/allOf/1/not/1/not: \"not\" (or "
         "another branch of oneOf, or if) around keyword \"format\" is not supported)"},
        {R"({"enum":[]})", "#/enum: expected an array of values"},
        {R"({"type":"string","enum":[1]})", "#: no value of enum or const satisfies the rest"},
        {R"({"minItems":3,"maxItems":2})", "#: minItems 3 is more than maxItems 2"},
        {R"({"minItems":-1})", "#: minItems is -1; expected a whole number from 0 to 10000"},
        {R"({"minLength":10001})",
         "#: minLength is 10001; expected a whole number from 0 to 10000"},
        {R"({"properties":[]})", "#/properties: expected an object of schemas"},
        {R"({"required":[1]})", "#/required: expected an array of names"},
        {R"({"properties":{"a":3}})",
         "#/properties/a: expected a schema, an object or true, got 3"},
        {R"({"properties":{"a":true},"required":["b"],"additionalProperties":false})",
         "#: \"b\" is required, and cannot be there"},
        {R"({"minProperties":3,"propertyNames":{"pattern":"^a"}})",
         "#: minProperties 3 is not supported where names are not listed"},
        {R"({"not":{"patternProperties":{"a":false}}})",
         "#/not: \"not\" (or another branch of oneOf, or if) around keyword \"patternProperties\" "
         "is not supported"},
        {R"({"unevaluatedItems":false})", "#: keyword \"unevaluatedItems\" is not supported"},
        {"false", "#: the schema is false, so nothing can be written here"},
        {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
         "rule \"root\" matches no text: it can never be completed"},
        {R"({"$ref":"#"})", "rule \"root\" matches no text: it can never be completed"},
        {R"({"allOf":[{"type":"string"},{"type":"null"}]})",
         "#/allOf/1: no type satisfies all of these"},
        {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a","minItems":1}}})",
         "#/$defs/a: references lead in a circle"},
    };
    for (const auto& [schema, message] : cases) {
        const auto automaton = compile(schema);
        EXPECT_EQ(automaton.ok() ? "no error" : automaton.error().message, message) << schema;
    }
}

std::string repeated(std::string_view text, int times, std::string_view between = ",") {
    std::string out;
    for (int i = 0; i < times; ++i) {
        if (i > 0) out += between;
        out += text;
    }
    return out;
}

base::Result<Grammar> read_schema(std::string_view schema) {
    return json_schema_grammar(schema);
}

// Each value is held against all the alternatives.
TEST(JsonSchema, AlternativesTimesValuesEndAtTheBudget) {
    std::string values;
    for (int i = 0; i < 9'000; ++i) values += (i == 0 ? "" : ",") + std::to_string(i);
    const auto grammar = read_schema("{\"enum\":[" + values + "],\"anyOf\":[" +
                                     repeated(R"({"title":"a","type":"string"})", 450) + "]}");
    ASSERT_FALSE(grammar.ok());
    EXPECT_EQ(grammar.error().message,
              "#: the schema is too costly: reading it takes more than 2000000 steps; use "
              "fewer alternatives, shorter lists or $ref");
    EXPECT_TRUE(read_schema("{\"enum\":[" + values + "]}").ok());
}

TEST(JsonSchema, EqualValuesAreWrittenOnce) {
    const auto grammar = read_schema("{\"enum\":[" + repeated("[]", 19'000) + "]}");
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    const auto automaton = Automaton::build(*grammar);
    ASSERT_TRUE(automaton.ok());
    EXPECT_LT((*automaton)->size(), 100U);
    EXPECT_TRUE(matches(*automaton, "[]"));
}

// An array needs its items' grammar twice, for the first item and for the others. Copied, that
// would be 2^60 grammars.
TEST(JsonSchema, NestedArraysShareTheGrammarOfTheirItems) {
    std::string schema = R"({"type":"boolean"})";
    for (int i = 0; i < 60; ++i) schema = R"({"type":"array","items":)" + schema + "}";
    const auto automaton = compile(schema);
    ASSERT_TRUE(automaton.ok()) << automaton.error().message;
    EXPECT_LT((*automaton)->size(), 5'000U);
    EXPECT_TRUE(matches(*automaton, std::string(60, '[') + "true,false" + std::string(60, ']')));
    EXPECT_FALSE(matches(*automaton, std::string(59, '[') + "true" + std::string(59, ']')));
}

TEST(JsonSchema, EqualSchemasShareTheirRules) {
    const std::string person = R"({"type":"object","properties":{"name":{"type":"string",
        "pattern":"^[A-Z][a-z]{0,30}$"},"born":{"type":"string","format":"date"}},
        "required":["name","born"]})";
    std::string schema = R"({"type":"object","properties":{)";
    for (int i = 0; i < 200; ++i) {
        schema += std::string(i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":" + person;
    }
    const auto automaton = compile(schema + "}}");
    ASSERT_TRUE(automaton.ok()) << automaton.error().message;
    EXPECT_LT((*automaton)->size(), 10'000U);
    EXPECT_TRUE(matches(*automaton, R"({"p7": {"name": "Ada", "born": "1815-12-10"}})"));
}

TEST(JsonSchema, ManyNamesAreMergedInLinearTime) {
    std::string one;
    std::string other;
    for (int i = 0; i < 3'000; ++i) {
        one += std::string(i == 0 ? "\"a" : ",\"a") + std::to_string(i) + "\"";
        other += std::string(i == 0 ? "\"b" : ",\"b") + std::to_string(i) + "\"";
    }
    const auto grammar =
        read_schema(R"({"allOf":[{"required":[)" + one + R"(]},{"required":[)" + other + "]}]}");
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    std::string parts;
    for (int i = 0; i < 200; ++i) {
        parts +=
            std::string(i == 0 ? "" : ",") + R"({"required":["c)" + std::to_string(i) + R"("]})";
    }
    const auto slow = read_schema(R"({"required":[)" + one + R"(],"allOf":[)" + parts + "]}");
    if (!slow.ok()) {
        EXPECT_NE(slow.error().message.find("too costly"), std::string::npos)
            << slow.error().message;
    }
}

TEST(JsonSchema, WhatNestsExpressionsIsBounded) {
    const auto message = [](const std::string& schema) {
        const auto grammar = read_schema(schema);
        return grammar.ok() ? "no error" : grammar.error().message;
    };
    EXPECT_EQ(message(R"({"prefixItems":[)" + repeated("true", 12'000) + "]}"),
              "#/prefixItems: more than 1000 schemas");
    EXPECT_EQ(message(R"({"prefixItems":[)" + repeated("true", 1'000) + "]}"), "no error");
    EXPECT_EQ(message("{\"properties\":{\"" + std::string(60'000, 'a') +
                      R"(":{}},"additionalProperties":true})"),
              "#: a property name of more than 256 bytes beside additional properties is not "
              "supported");
    EXPECT_EQ(message(std::string(200'000, '[')),
              "the schema cannot be read: it is nested more than 256 deep");
}

TEST(JsonSchema, TextThatIsNoJsonIsSaidToBeSo) {
    const auto automaton = compile("[");
    ASSERT_FALSE(automaton.ok());
    EXPECT_TRUE(automaton.error().message.starts_with("the schema is not valid JSON: "))
        << automaton.error().message;
}

TEST(JsonSchema, JsonModeTakesObjectsOnly) {
    const auto automaton = Automaton::build(json_object_grammar());
    ASSERT_TRUE(automaton.ok());
    EXPECT_TRUE(matches(*automaton, R"({"a": [1, 2.5e3, {"b": null}], "c": "\u20ac"})"));
    EXPECT_FALSE(matches(*automaton, "[]"));
    EXPECT_FALSE(matches(*automaton, "{} "));
}

}  // namespace
}  // namespace helix::text::grammar::json_schema_test
