#include "spec/bounded_json.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "spec/json_place.h"

namespace helix::spec::bounded_json_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Json>
std::string problem_of(std::string_view text, const JsonLimits& limits) {
    Json out;
    const auto problem = read_bounded_json(text, limits, out);
    return problem ? problem->message : "none";
}

TEST(BoundedJson, IsWhatTheLibraryReads) {
    for (const char* text :
         {"null", " [1, -2, 3.5e2, \"a\\u00e9\", true, false, null, [], {}, [[]], {\"a\":{}}] ",
          R"({"z":1,"a":[{"b":2},{"c":[3,{"d":"e"}]}],"m":{"n":{"o":-1}},"z":4})",
          "18446744073709551615", "\"text\"", R"({"":""})"}) {
        SCOPED_TRACE(text);
        json plain;
        ASSERT_FALSE(read_bounded_json(text, {}, plain));
        EXPECT_EQ(plain, json::parse(text));
        ordered_json ordered;
        ASSERT_FALSE(read_bounded_json(text, {}, ordered));
        EXPECT_EQ(ordered.dump(), ordered_json::parse(text).dump());
    }
    for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "[1] x", "\"\xff\"", "1e999", "nul"}) {
        SCOPED_TRACE(text);
        EXPECT_FALSE(json::accept(text));
        EXPECT_NE(problem_of<json>(text, {}), "none");
        EXPECT_NE(problem_of<ordered_json>(text, {}), "none");
        EXPECT_TRUE(bounded_json_or_discarded(text).is_discarded());
    }
    EXPECT_EQ(bounded_json_or_discarded("[1]"), json::array({1}));
}

TEST(BoundedJson, WhatIsOverALimitNamesIt) {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_EQ(problem_of<json>(deep, {}), "it is nested more than 128 deep");
    EXPECT_EQ(problem_of<ordered_json>(std::string(200'000, '['), {.depth = 64}),
              "it is nested more than 64 deep");
    std::string objects;
    for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
    EXPECT_EQ(problem_of<json>(objects, {}), "it is nested more than 128 deep");
    EXPECT_EQ(problem_of<json>("[[[]]]", {.depth = 3}), "none");
    EXPECT_EQ(problem_of<json>("[[[]]]", {.depth = 2}), "it is nested more than 2 deep");
    EXPECT_EQ(problem_of<json>("[1,{\"a\":2}]", {.elements = 4}), "none");
    EXPECT_EQ(problem_of<json>("[1,{\"a\":2}]", {.elements = 3}), "it has more than 3 values");
    const auto file = parse_json(deep, "some.json");
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().message, "some.json: it is nested more than 128 deep");
}

// Each new name compared with all before it would be 20,000,000,000 comparisons.
TEST(BoundedJson, AnObjectOfManyMembersTakesLinearTime) {
    std::string text = "{";
    for (int i = 0; i < 200'000; ++i) {
        text += (i == 0 ? "\"name" : ",\"name") + std::to_string(i) + "\":" + std::to_string(i);
    }
    text += ",\"name7\":-1,\"name8\":-2}";
    ordered_json out;
    JsonFacts facts;
    ASSERT_FALSE(read_bounded_json(text, {}, out, &facts));
    EXPECT_EQ(out.size(), 200'000U);
    EXPECT_EQ(out.begin().key(), "name0");
    EXPECT_EQ(out["name7"], -1);
    EXPECT_EQ(std::next(out.begin(), 7).value(), -1);  // in its place
    EXPECT_EQ(facts.repeated, "name7");
    EXPECT_EQ(facts.elements, 200'003U);
}

TEST(BoundedJson, OnlyNamesOfTheOutermostObjectAreToldAsRepeated) {
    json out;
    JsonFacts facts;
    ASSERT_FALSE(read_bounded_json(R"({"a":{"x":1,"x":2},"b":[{"y":1,"y":1}]})", {}, out, &facts));
    EXPECT_FALSE(facts.repeated);
}

}  // namespace
}  // namespace helix::spec::bounded_json_test
