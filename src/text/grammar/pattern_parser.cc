#include "text/grammar/pattern_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/grammar/text_reader.h"
#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxPatternNesting = 100;

CharSet class_named(char name) {
    switch (name) {
        case 'd':
            return {{'0', '9'}};
        case 'w':
            return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
        default:  // s
            return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                    {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    }
}

// The characters that . does not match.
const CharSet& line_ends() {
    static const CharSet kEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    return kEnds;
}

class PatternParser {
  public:
    explicit PatternParser(std::string_view text) : reader_(text) {}

    base::Result<Expr> parse() {
        TRY(Expr whole, parse_alternatives(0));
        if (!reader_.done()) return reader_.error("expected the end of the pattern");
        return whole;
    }

  private:
    base::Result<Expr> parse_alternatives(int depth) {
        if (depth > kMaxPatternNesting) {
            return reader_.error(
                fmt::format("groups are nested more than {} deep", kMaxPatternNesting));
        }
        std::vector<Expr> items;
        do {
            TRY(Expr item, parse_sequence(depth));
            items.push_back(std::move(item));
        } while (reader_.take("|"));
        return items.size() == 1 ? std::move(items.front()) : choice(std::move(items));
    }

    // After "(".
    base::Result<Expr> parse_group(int depth) {
        std::optional<Assertion> ahead;
        if (reader_.take("?=")) {
            ahead = Assertion::ahead;
        } else if (reader_.take("?!")) {
            ahead = Assertion::not_ahead;
        } else if (reader_.peek() == '?' && !reader_.take("?:")) {
            TRY_VOID(skip_group_name());
        }
        TRY(Expr inside, parse_alternatives(depth));
        if (!reader_.take(")")) return reader_.error("expected ')' or more of the group");
        if (!ahead) return inside;
        std::vector<Expr> items;
        items.push_back(std::move(inside));
        return assertion(*ahead, std::move(items));
    }

    base::Status skip_group_name() {
        const std::size_t at = reader_.position();
        reader_.take("?");
        reader_.take("P");
        if (reader_.take("<") && reader_.peek() != '=' && reader_.peek() != '!') {
            reader_.take_while([](char c) {
                return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9');
            });
            if (reader_.take(">")) return base::Ok{};
        }
        reader_.seek(at);
        return reader_.error("look-behind and flags are not supported");
    }

    // Parses up to | or ).
    base::Result<Expr> parse_sequence(int depth) {
        std::vector<Expr> items;
        while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')') {
            TRY(Expr item, parse_item(depth));
            const bool counts = reader_.peek() != '{' || is_digit(reader_.peek(1));
            if (counts) {
                TRY(const auto repetition, take_repetition(reader_));
                if (repetition) {
                    reader_.take("?");
                    item = repeat(std::move(item), repetition->min, repetition->max);
                }
            }
            items.push_back(std::move(item));
        }
        return items.size() == 1 ? std::move(items.front()) : sequence(std::move(items));
    }

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }

    base::Result<Expr> parse_item(int depth) {
        switch (reader_.peek()) {
            case '(':
                reader_.take("(");
                return parse_group(depth + 1);
            case '[': {
                reader_.take("[");
                TRY(CharSet set, parse_class());
                return chars(std::move(set));
            }
            case '.':
                reader_.take(".");
                return chars(complement(line_ends()));
            case '\\': {
                if (reader_.take("\\b")) return assertion(Assertion::word_edge);
                if (reader_.take("\\B")) return assertion(Assertion::no_word_edge);
                TRY(CharSet set, parse_escape(false));
                return chars(std::move(set));
            }
            case '^':
                reader_.take("^");
                return assertion(Assertion::start);
            case '$':
                reader_.take("$");
                return assertion(Assertion::end);
            case '{':
                if (!is_digit(reader_.peek(1))) {  // then it is a character
                    reader_.take("{");
                    return chars({{'{', '{'}});
                }
                return reader_.error("expected something to repeat");
            case '*':
            case '+':
            case '?':
                return reader_.error("expected something to repeat");
            default: {
                TRY(const char32_t code, reader_.take_char());
                return chars({{code, code}});
            }
        }
    }

    base::Result<CharSet> parse_class() {
        const bool negated = reader_.take("^");
        std::vector<CodeRange> ranges;
        while (!reader_.take("]")) {
            if (reader_.done()) return reader_.error("expected ']' at the end of a class");
            TRY(const CharSet first, parse_class_item());
            const bool single = first.size() == 1 && first[0].first == first[0].last;
            if (single && reader_.peek() == '-' && reader_.peek(1) != ']') {
                reader_.take("-");
                const std::size_t at = reader_.position();
                TRY(const CharSet last, parse_class_item());
                if (last.size() != 1 || last[0].first != last[0].last) {  // as in [a-\d]
                    ranges.push_back(first[0]);
                    ranges.push_back({'-', '-'});
                    ranges.insert(ranges.end(), last.begin(), last.end());
                    continue;
                }
                if (last[0].first < first[0].first) {
                    reader_.seek(at);
                    return reader_.error("expected a range that ascends");
                }
                ranges.push_back({first[0].first, last[0].first});
            } else {
                ranges.insert(ranges.end(), first.begin(), first.end());
            }
        }
        CharSet set = make_char_set(std::move(ranges));
        if (negated) return complement(set);
        if (set.empty()) return reader_.error("the class is empty");
        return set;
    }

    base::Result<CharSet> parse_class_item() {
        if (reader_.peek() == '\\') return parse_escape(true);
        TRY(const char32_t code, reader_.take_char());
        return CharSet{{code, code}};
    }

    base::Result<CharSet> parse_escape(bool in_class) {
        reader_.take("\\");
        const char c = reader_.peek();
        const auto single = [this](char32_t code) {
            reader_.seek(reader_.position() + 1);
            return CharSet{{code, code}};
        };
        switch (c) {
            case 'd':
            case 'w':
            case 's':
                reader_.seek(reader_.position() + 1);
                return class_named(c);
            case 'D':
            case 'W':
            case 'S':
                reader_.seek(reader_.position() + 1);
                return complement(class_named(static_cast<char>(c - 'A' + 'a')));
            case 'n':
                return single('\n');
            case 't':
                return single('\t');
            case 'r':
                return single('\r');
            case 'f':
                return single('\f');
            case 'v':
                return single('\v');
            case 'x':
            case 'u':
                return parse_code(c);
            case 'b':
                if (in_class) return single('\b');
                break;
            case '0':
                return single('\0');
            default:
                if (c != '\0' && std::string_view("^$\\.*+?()[]{}|/-\"'#&~:;<>=!@%,` _").find(c) !=
                                     std::string_view::npos) {
                    return single(static_cast<char32_t>(c));
                }
        }
        return reader_.error(
            "this escape is not supported; known are \\d \\w \\s \\D \\W \\S \\b \\B \\n \\t \\r "
            "\\f \\v \\0 "
            "\\xHH \\uHHHH and punctuation");
    }

    base::Result<CharSet> parse_code(char kind) {
        reader_.seek(reader_.position() + 1);
        const int digits = kind == 'x' ? 2 : 4;
        const auto code = reader_.take_hex(digits);
        if (!code) {
            return reader_.error(
                fmt::format("expected {} hexadecimal digits after \\{}", digits, kind));
        }
        if (*code >= 0xD800 && *code <= 0xDFFF) {
            return reader_.error("surrogates are not supported; write the character itself");
        }
        return CharSet{{*code, *code}};
    }

    TextReader reader_;
};

bool has_assertion(const Expr& e) {
    return e.kind == Expr::Kind::assertion ||
           std::any_of(e.items.begin(), e.items.end(), has_assertion);
}

bool is_assertion(const Expr& e, Assertion kind) {
    return e.kind == Expr::Kind::assertion && e.assertion == kind;
}

// The same for one alternative.
std::optional<Expr> whole_alternative(const Expr& e, const Expr& any_character) {
    std::vector<Expr> items = e.kind == Expr::Kind::sequence ? e.items : std::vector<Expr>{e};
    const bool from_start = !items.empty() && is_assertion(items.front(), Assertion::start);
    if (from_start) items.erase(items.begin());
    const bool to_end = !items.empty() && is_assertion(items.back(), Assertion::end);
    if (to_end) items.pop_back();
    if (std::any_of(items.begin(), items.end(), has_assertion)) return {};
    if (!from_start) items.insert(items.begin(), repeat(any_character, 0));
    if (!to_end) items.push_back(repeat(any_character, 0));
    return sequence(std::move(items));
}

}  // namespace

base::Result<Expr> parse_pattern(std::string_view text) {
    return PatternParser(text).parse();
}

std::optional<Expr> with_whole_text(const Expr& pattern, const Expr& any_character) {
    if (pattern.kind != Expr::Kind::choice) return whole_alternative(pattern, any_character);
    std::vector<Expr> out;
    for (const Expr& item : pattern.items) {
        auto whole = whole_alternative(item, any_character);
        if (!whole) return {};
        out.push_back(std::move(*whole));
    }
    return choice(std::move(out));
}

}  // namespace helix::text::grammar
