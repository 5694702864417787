#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "grammar_helpers.h"
#include "schema_checker.h"
#include "schema_maker.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"

// Random schemas and documents, judged by the grammar and by a validator that knows nothing of it.

namespace helix::text::grammar::schema_random_test {
namespace {

using test::Json;
using test::matches;

base::Result<std::shared_ptr<const Automaton>> compile(const Json& schema) {
    TRY(const Grammar grammar, json_schema_grammar(std::string_view(schema.dump())));
    return Automaton::build(grammar);
}

// ---- numbers: every number of a small grid, in its shortest spelling

std::vector<std::string> grid() {
    std::vector<std::string> out;
    for (int n = -330; n <= 330; ++n) {
        const bool below = n < 0;
        const int size = below ? -n : n;
        std::string text = (below ? "-" : "") + std::to_string(size / 100);
        if (size % 100 != 0) {
            text += fmt::format(".{:02}", size % 100);
            if (text.back() == '0') text.pop_back();
        }
        out.push_back(text);
    }
    for (const char* far : {"10", "99", "100", "-10", "-100", "12.5", "1000"})
        out.emplace_back(far);
    return out;
}

TEST(SchemaRandom, BoundsAndMultiplesOfNumbersAreExact) {
    base::Random random(3);
    const std::vector<std::string> numbers = grid();
    const auto bound = [&random] {
        return Json::parse(fmt::format("{}", static_cast<double>(random.below(601)) / 100.0 - 3.0),
                           nullptr, false);
    };
    std::size_t checked = 0;
    for (int i = 0; i < (kSanitized ? 12 : 150); ++i) {
        Json schema = {{"type", random.below(3) == 0 ? "integer" : "number"}};
        if (random.below(3) != 0) {
            schema[random.below(2) == 0 ? "minimum" : "exclusiveMinimum"] = bound();
        }
        if (random.below(3) != 0) {
            schema[random.below(2) == 0 ? "maximum" : "exclusiveMaximum"] = bound();
        }
        if (random.below(3) == 0) {
            const std::vector<double> of = {0.01, 0.5, 0.25, 2, 3, 0.3, 1.5};
            schema["multipleOf"] = of[random.below(of.size())];
        }
        if (random.below(5) == 0) schema["not"] = {{"multipleOf", 1}};
        const auto automaton = compile(schema);
        std::size_t expected = 0;
        std::unique_ptr<Matcher> matcher;
        if (automaton.ok()) matcher = std::make_unique<Matcher>(*automaton);
        for (const std::string& text : numbers) {
            const bool fits = test::satisfies(Json::parse(text), schema, schema);
            expected += fits ? 1U : 0U;
            if (matcher == nullptr) continue;
            ASSERT_EQ(matches(*matcher, text), fits) << schema << " " << text;
        }
        if (matcher == nullptr) {
            EXPECT_EQ(expected, 0U) << schema << " " << automaton.error().message;
        }
        checked += expected;
    }
    EXPECT_GT(checked, 1000U);
}

// ---- strings: every text of a small alphabet

TEST(SchemaRandom, PatternsAndLengthsAreExact) {
    base::Random random(5);
    const std::vector<std::string> patterns = {"^a*$",      "b",         "^(ab|c)+$", "^[^a]",
                                               "^(?!.*cc)", "(?=.*a)b",  "a$|^c",     "^.{2,3}$",
                                               "\\bb\\b",   "^(a|b)?c*$"};
    std::vector<std::string> texts{""};
    for (std::size_t i = 0; texts[i].size() < 5; ++i) {
        for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
    }
    for (int i = 0; i < (kSanitized ? 12 : 150); ++i) {
        Json schema = {{"type", "string"}};
        const auto pattern = [&] { return patterns[random.below(patterns.size())]; };
        if (random.below(4) != 0) schema["pattern"] = pattern();
        if (random.below(2) == 0) schema["minLength"] = random.below(4);
        if (random.below(2) == 0) schema["maxLength"] = random.below(6);
        if (random.below(3) == 0) schema["allOf"] = Json::array({Json{{"pattern", pattern()}}});
        if (random.below(3) == 0) schema["not"] = Json{{"pattern", pattern()}};
        if (random.below(6) == 0) schema["not"] = Json{{"enum", {"a", "cb", ""}}};
        const auto automaton = compile(schema);
        std::unique_ptr<Matcher> matcher;
        if (automaton.ok()) matcher = std::make_unique<Matcher>(*automaton);
        for (const std::string& text : texts) {
            const bool fits = test::satisfies(Json(text), schema, schema);
            if (matcher == nullptr) {
                EXPECT_FALSE(fits) << schema << " " << automaton.error().message;
            } else {
                ASSERT_EQ(matches(*matcher, Json(text).dump()), fits) << schema << " " << text;
            }
        }
    }
}

// ---- everything together

TEST(SchemaRandom, NothingIsAcceptedThatDoesNotSatisfyTheSchema) {
    std::size_t compiled = 0;
    std::size_t accepted = 0;
    std::size_t left_out = 0;
    constexpr std::uint64_t kSchemas = kSanitized ? 80 : 1500;
    for (std::uint64_t seed = 0; seed < kSchemas; ++seed) {
        test::SchemaMaker maker(seed);
        const Json schema = maker.schema(3);
        const auto automaton = compile(schema);
        if (!automaton.ok()) continue;
        ++compiled;
        Matcher matcher(*automaton);
        for (int i = 0; i < 60; ++i) {
            const Json value = maker.value(3);
            const bool reads = matches(matcher, value.dump());
            const bool fits = test::satisfies(value, schema, schema);
            accepted += reads ? 1U : 0U;
            left_out += fits && !reads ? 1U : 0U;
            ASSERT_TRUE(fits || !reads) << "seed " << seed << ": " << schema << " " << value;
        }
    }
    EXPECT_GT(compiled, kSchemas * 2 / 3);
    EXPECT_GT(accepted, kSchemas * 4 / 3);
    std::printf("%zu of %zu schemas compiled, %zu documents accepted, %zu valid ones left out\n",
                compiled, std::size_t{kSchemas}, accepted, left_out);
}

// Whatever the grammar writes satisfies the schema.
TEST(SchemaRandom, WhatIsWrittenSatisfiesTheSchema) {
    std::size_t written = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        test::SchemaMaker maker(seed);
        const Json schema = maker.schema(3);
        const auto automaton = compile(schema);
        if (!automaton.ok()) continue;
        Matcher matcher(*automaton);
        base::Random random(seed);
        for (int text = 0; text < 4; ++text) {
            std::string out;
            Matcher::State state = matcher.start();
            constexpr std::string_view kBytes = "\"}]{[:,abc0125.-truefalsn";
            for (int i = 0; i < 200; ++i) {
                if (matcher.accepts(state) && random.below(4) == 0) break;
                std::vector<char> may;
                for (const char byte : kBytes) {
                    const auto next = matcher.next(state, static_cast<std::uint8_t>(byte));
                    if (next != Matcher::kDead) may.push_back(byte);
                }
                if (may.empty()) break;
                // Closing bytes come first now and then, so that texts end.
                const char byte =
                    random.below(3) == 0 ? may.front() : may[random.below(may.size())];
                out += byte;
                state = matcher.next(state, static_cast<std::uint8_t>(byte));
            }
            if (!matcher.accepts(state)) continue;
            const Json value = Json::parse(out, nullptr, false);
            ASSERT_FALSE(value.is_discarded()) << out;
            ASSERT_TRUE(test::satisfies(value, schema, schema)) << schema << " " << out;
            ++written;
        }
    }
    EXPECT_GT(written, 500U);
}

}  // namespace
}  // namespace helix::text::grammar::schema_random_test
