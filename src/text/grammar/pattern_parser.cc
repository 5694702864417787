#include "text/grammar/pattern_parser.h"

#include <fmt/format.h>

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
    PatternParser(std::string_view text, const Expr& any) : reader_(text), any_(any) {}

    base::Result<Expr> parse() {
        std::vector<Expr> items;
        do {
            const bool from_start = reader_.take("^");
            TRY(Expr body, parse_sequence(0));
            const bool to_end = reader_.take("$");
            std::vector<Expr> whole;
            if (!from_start) whole.push_back(repeat(any_, 0));
            whole.push_back(std::move(body));
            if (!to_end) whole.push_back(repeat(any_, 0));
            items.push_back(sequence(std::move(whole)));
        } while (reader_.take("|"));
        if (!reader_.done()) return reader_.error("expected the end of the pattern");
        return choice(std::move(items));
    }

  private:
    base::Result<Expr> parse_group(int depth) {
        if (depth > kMaxPatternNesting) {
            return reader_.error(
                fmt::format("groups are nested more than {} deep", kMaxPatternNesting));
        }
        if (reader_.peek() == '?' && !reader_.take("?:")) {
            return reader_.error("look-around, named groups and flags are not supported");
        }
        std::vector<Expr> items;
        do {
            TRY(Expr item, parse_sequence(depth));
            items.push_back(std::move(item));
        } while (reader_.take("|"));
        if (!reader_.take(")")) return reader_.error("expected ')' or more of the group");
        return choice(std::move(items));
    }

    // Parses up to |, ) or the anchor at the end.
    base::Result<Expr> parse_sequence(int depth) {
        std::vector<Expr> items;
        while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')') {
            if (reader_.peek() == '$') {
                const char after = reader_.peek(1);
                if (depth == 0 && (after == '|' || after == '\0')) break;
                return reader_.error("$ is supported only at the end of the pattern");
            }
            TRY(Expr item, parse_item(depth));
            TRY(const auto repetition, take_repetition(reader_));
            if (repetition) {
                reader_.take("?");
                item = repeat(std::move(item), repetition->min, repetition->max);
            }
            items.push_back(std::move(item));
        }
        return sequence(std::move(items));
    }

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
                TRY(CharSet set, parse_escape(false));
                return chars(std::move(set));
            }
            case '^':
                return reader_.error("^ is supported only at the beginning of the pattern");
            case '*':
            case '+':
            case '?':
            case '{':
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
                if (last.size() != 1 || last[0].first != last[0].last ||
                    last[0].first < first[0].first) {
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
            default:
                if (c != '\0' && std::string_view("^$\\.*+?()[]{}|/-\"'#&~:;<>=!@%,` _").find(c) !=
                                     std::string_view::npos) {
                    return single(static_cast<char32_t>(c));
                }
        }
        return reader_.error(
            "this escape is not supported; known are \\d \\w \\s \\D \\W \\S \\n \\t \\r \\f \\v "
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
    const Expr& any_;
};

}  // namespace

base::Result<Expr> parse_pattern(std::string_view text, const Expr& any_character) {
    return PatternParser(text, any_character).parse();
}

}  // namespace helix::text::grammar
