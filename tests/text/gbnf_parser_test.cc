#include "text/grammar/gbnf_parser.h"

#include <gtest/gtest.h>

#include "text/grammar/matcher.h"

namespace helix::text::grammar::gbnf_parser_test {
namespace {

base::Result<std::shared_ptr<const Automaton>> compile(std::string_view text) {
    TRY(const Grammar grammar, parse_gbnf(text));
    return Automaton::build(grammar);
}

bool matches(const std::shared_ptr<const Automaton>& automaton, std::string_view text) {
    Matcher matcher(automaton);
    Matcher::State state = matcher.start();
    for (const char byte : text) state = matcher.next(state, static_cast<std::uint8_t>(byte));
    EXPECT_EQ(matcher.trouble(), Matcher::Trouble::none);
    return matcher.accepts(state);
}

struct Case {
    const char* grammar;
    std::vector<std::string> yes;
    std::vector<std::string> no;
};

TEST(GbnfParser, GrammarsMatchWhatTheySay) {
    const std::vector<Case> cases = {
        {"root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b", "abc", "ab"}},
        {"root ::= x*  # many\nx ::= \"a\"\n", {"", "a", "aaaa"}, {"b", "ab"}},
        {"root ::= [a-c]+ [^a-c]?", {"abc", "a!", "c\xC3\xA9"}, {"", "ab!!", "!"}},
        {"root ::= \"x\"{2,3}", {"xx", "xxx"}, {"x", "xxxx"}},
        {"root ::= \"x\"{2,} \"y\"{1}", {"xxy", "xxxxxy"}, {"xy", "xx", "xxyy"}},
        {"root ::= (\"a\" | \"b\" (\"c\"\n | \"d\")) \"!\"",
         {"a!", "bc!", "bd!"},
         {"b!", "a", "ac!"}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\"", {"A\xC3\xA9\xF0\x9F\x98\x80\n\""}, {"A"}},
        {"root ::= .", {"a", "\n", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}, {"", "ab", "\xFF", "\xC3"}},
        {"root ::= [\\]\\-\\\\^]", {"]", "-", "\\", "^"}, {"a"}},
        {"root ::= [a-]", {"a", "-"}, {"b"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", ")", "(()"}},
        {"root ::= a_1 b-2\na_1 ::= \"a\"\nb-2 ::= \"b\"", {"ab"}, {"a", "b"}},
        {"root ::= \"\"", {""}, {"a"}},
        {"root ::= (\"a\"?)*", {"", "aaa"}, {"b"}},
        {"root ::= ((\"a\" | \"\")+)*  \"b\"", {"b", "aab"}, {"a"}},
        {"root ::= \"a\" bad | \"c\"\nbad ::= \"b\" bad", {"c"}, {"a", "ab"}},
        {"root ::=\n  \"a\"\n  | \"b\"\n\n# end", {"a", "b"}, {"ab"}},
        {"root ::= ([a-z\xC3\xA9] \"-\"){0,3} [0-9]{3}", {"a-b-123", "\xC3\xA9-999"}, {"a-b-12"}},
    };
    for (const Case& c : cases) {
        const auto automaton = compile(c.grammar);
        ASSERT_TRUE(automaton.ok()) << c.grammar << ": " << automaton.error().message;
        for (const auto& text : c.yes)
            EXPECT_TRUE(matches(*automaton, text)) << c.grammar << " " << text;
        for (const auto& text : c.no)
            EXPECT_FALSE(matches(*automaton, text)) << c.grammar << " " << text;
    }
}

TEST(GbnfParser, ErrorsSayWhereAndWhat) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "there is no rule named \"root\""},
        {"a ::= \"x\"", "there is no rule named \"root\""},
        {"root = \"x\"", "line 1, column 6: expected ::= after rule \"root\", found '='"},
        {"root ::= \"x", "line 1, column 12: expected '\"' at the end of a literal, found the end"},
        {"root ::= [ab", "line 1, column 13: expected ']' at the end of a class, found the end"},
        {"root ::= []", "line 1, column 12: the class is empty, found the end"},
        {"root ::= [z-a]", "line 1, column 13: expected a range that ascends, found 'a'"},
        {"root ::= (\"a\"", "line 1, column 14: expected ')' or more of the group, found the end"},
        {"root ::= \"a\")",
         "line 1, column 13: expected a literal, a class, a group or a rule, found ')'"},
        {"root ::= \"\\q\"",
         "line 1, column 12: expected an escape of \\n \\r \\t \\\" \\\\ \\[ \\] \\- \\^ \\x \\u "
         "\\U, "
         "found 'q'"},
        {"root ::= \"\\x4\"",
         "line 1, column 14: expected 2 hexadecimal digits after \\x, found '\"'"},
        {"root ::= \"\\uD800\"", "line 1, column 17: U+D800 is no character, found '\"'"},
        {"root ::= \"a\"\n  other", "line 2, column 3: rule \"other\" is not defined, found 'o'"},
        {"root ::= \"a\"\nroot ::= \"b\"",
         "line 2, column 1: rule \"root\" is defined twice, found 'r'"},
        {"root ::= \"a\"{3,2}",
         "line 1, column 16: expected at least 3 repetitions as the most, found '2'"},
        {"root ::= \"a\"{99999}",
         "line 1, column 14: expected a number of repetitions, at most 10000, found '9'"},
        {"root ::= \"a\"{1",
         "line 1, column 15: expected '}' after the repetitions, found the end"},
        {"root ::= *",
         "line 1, column 10: expected a literal, a class, a group or a rule, found '*'"},
        {"root ::= \"\xFF\"", "line 1, column 11: the text is not valid UTF-8, found byte 0xFF"},
        {"root ::= root \"a\" | \"b\"",
         "rule \"root\" is left-recursive, it begins with itself: root -> root; put the recursion "
         "last or use a repetition"},
        {"root ::= a\na ::= \"x\"? b\nb ::= a \"y\" | \"z\"",
         "rule \"a\" is left-recursive, it begins with itself: a -> b -> a; put the recursion last "
         "or use a repetition"},
        {"root ::= \"a\" root", "rule \"root\" matches no text: it can never be completed"},
        {"root ::= a{300}\na ::= b{300}\nb ::= [a-z]{300} \"x\"",
         ""},  // counted by calls, not by copies
        {"root ::= a b c d e f\na ::= [0]{10000}\nb ::= [0]{10000}\nc ::= [0]{10000}\n"
         "d ::= [0]{10000}\ne ::= [0]{10000}\nf ::= [0]{10000}",
         "the grammar is too large: it needs more than 50000 states; use smaller repetitions or "
         "fewer rules"},
    };
    for (const auto& [text, message] : cases) {
        const auto automaton = compile(text);
        EXPECT_EQ(automaton.ok() ? "" : automaton.error().message, message) << text;
    }
}

TEST(GbnfParser, DeepNestingIsRefusedNotFollowed) {
    const auto automaton = compile("root ::= " + std::string(100'000, '('));
    ASSERT_FALSE(automaton.ok());
    EXPECT_EQ(automaton.error().message,
              "line 1, column 111: groups are nested more than 100 deep, found '('");
}

}  // namespace
}  // namespace helix::text::grammar::gbnf_parser_test
