#include "text/grammar/gbnf_writer.h"

#include <gtest/gtest.h>

#include <regex>

#include "grammar_helpers.h"
#include "text/grammar/gbnf_parser.h"

namespace helix::text::grammar::gbnf_writer_test {
namespace {

bool matches(const std::string& gbnf, std::string_view text) {
    const auto grammar = parse_gbnf(gbnf);
    CHECK(grammar.ok());
    const auto automaton = Automaton::build(*grammar);
    CHECK(automaton.ok());
    return test::matches(*automaton, text);
}

TEST(GbnfWriter, APatternMatchesWholeTexts) {
    std::vector<std::string> texts{""};
    for (std::size_t i = 0; texts[i].size() < 4; ++i) {
        for (const char c : {'a', 'b', '1', '-', '"'}) texts.push_back(texts[i] + c);
    }
    for (const std::string pattern :
         {"a", "^a+$", "a|b1", "^a|b$", "[^a]*", "(?!b).*", "\\w+(-\\d)?", "", "(a|)b{0,2}",
          "\"[-ab]\"", "^(?=.*1)[a1]+$", "a$|^b"}) {
        const auto gbnf = gbnf_of_pattern(pattern);
        ASSERT_TRUE(gbnf.ok()) << pattern << ": " << gbnf.error().message;
        const std::regex oracle("^(?:" + pattern + ")$", std::regex::ECMAScript);
        for (const std::string& text : texts) {
            EXPECT_EQ(matches(*gbnf, text), std::regex_search(text, oracle))
                << pattern << " " << text << "\n"
                << *gbnf;
        }
    }
}

TEST(GbnfWriter, AChoiceIsOneOfItsTexts) {
    const std::string gbnf = gbnf_of_choices({"yes", "a \"b\"\n", "\xC3\xA9\xF0\x9F\x98\x80", ""});
    for (const char* text : {"yes", "a \"b\"\n", "\xC3\xA9\xF0\x9F\x98\x80", ""}) {
        EXPECT_TRUE(matches(gbnf, text)) << text;
    }
    for (const char* text : {"ye", "yesyes", "a", "\xC3\xA9"}) EXPECT_FALSE(matches(gbnf, text));
}

TEST(GbnfWriter, APatternThatMatchesNothingIsRefused) {
    EXPECT_EQ(gbnf_of_pattern("a(?!b)(?=b)").error().message, "the pattern matches no text");
    EXPECT_EQ(gbnf_of_pattern("(a|b)*a(a|b){40}(?=)").error().message, "the pattern is too costly");
}

}  // namespace
}  // namespace helix::text::grammar::gbnf_writer_test
