#include "text/grammar/gbnf_parser.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "text/grammar/text_reader.h"
#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxNesting = 100;

bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

class GbnfParser {
  public:
    explicit GbnfParser(std::string_view text) : reader_(text) {}

    base::Result<Grammar> parse() {
        skip_space();
        while (!reader_.done()) TRY_VOID(parse_rule());
        for (const auto& [name, known] : names_) {
            if (known.defined) continue;
            reader_.seek(known.first_use);
            return reader_.error(fmt::format("rule \"{}\" is not defined", name));
        }
        const auto root = names_.find("root");
        if (root == names_.end()) return base::invalid("there is no rule named \"root\"");
        grammar_.root = root->second.index;
        return std::move(grammar_);
    }

  private:
    struct Name {
        RuleIndex index = 0;
        std::size_t first_use = 0;
        bool defined = false;
    };

    void skip_space() {
        for (;;) {
            reader_.take_while(
                [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
            if (reader_.peek() != '#') return;
            reader_.take_while([](char c) { return c != '\n'; });
        }
    }

    // Whether `name ::=` is next.
    bool at_definition() {
        const std::size_t at = reader_.position();
        const bool named = !reader_.take_while(in_name).empty();
        skip_space();
        const bool defined = named && reader_.take("::=");
        reader_.seek(at);
        return defined;
    }

    Name& name_at(std::size_t position, std::string_view name) {
        const auto [it, is_new] = names_.try_emplace(std::string(name));
        if (is_new) it->second = {grammar_.add(std::string(name)), position, false};
        return it->second;
    }

    base::Status parse_rule() {
        const std::size_t at = reader_.position();
        const std::string_view name = reader_.take_while(in_name);
        if (name.empty()) return reader_.error("expected the name of a rule");
        skip_space();
        if (!reader_.take("::=")) {
            return reader_.error(fmt::format("expected ::= after rule \"{}\"", name));
        }
        Name& known = name_at(at, name);
        if (known.defined) {
            reader_.seek(at);
            return reader_.error(fmt::format("rule \"{}\" is defined twice", name));
        }
        known.defined = true;
        skip_space();
        TRY(Expr body, parse_choice(0));
        grammar_.body(known.index) = std::move(body);
        if (!reader_.done() && !at_definition()) {
            return reader_.error("expected a literal, a class, a group or a rule");
        }
        return base::Ok{};
    }

    base::Result<Expr> parse_choice(int depth) {
        if (depth > kMaxNesting) {
            return reader_.error(fmt::format("groups are nested more than {} deep", kMaxNesting));
        }
        std::vector<Expr> items;
        do {
            skip_space();
            TRY(Expr item, parse_sequence(depth));
            items.push_back(std::move(item));
        } while (reader_.take("|"));
        return items.size() == 1 ? std::move(items.front()) : choice(std::move(items));
    }

    base::Result<Expr> parse_sequence(int depth) {
        std::vector<Expr> items;
        while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')' &&
               !at_definition()) {
            TRY(std::optional<Expr> item, parse_item(depth));
            if (!item) break;
            TRY(const auto repetition, take_repetition(reader_));
            if (repetition) item = repeat(std::move(*item), repetition->min, repetition->max);
            items.push_back(std::move(*item));
            skip_space();
        }
        return items.size() == 1 ? std::move(items.front()) : sequence(std::move(items));
    }

    // Nothing when no item begins here.
    base::Result<std::optional<Expr>> parse_item(int depth) {
        using Maybe = std::optional<Expr>;
        if (reader_.take("\"")) {
            TRY(Expr text, parse_literal());
            return Maybe(std::move(text));
        }
        if (reader_.take("[")) {
            TRY(Expr set, parse_class());
            return Maybe(std::move(set));
        }
        if (reader_.take(".")) return Maybe(chars(complement({})));
        if (reader_.take("(")) {
            TRY(Expr group, parse_choice(depth + 1));
            if (!reader_.take(")")) return reader_.error("expected ')' or more of the group");
            return Maybe(std::move(group));
        }
        const std::size_t at = reader_.position();
        const std::string_view name = reader_.take_while(in_name);
        if (name.empty()) return Maybe();
        return Maybe(rule(name_at(at, name).index));
    }

    base::Result<Expr> parse_literal() {
        std::string text;
        while (!reader_.take("\"")) {
            if (reader_.done()) return reader_.error("expected '\"' at the end of a literal");
            TRY(const char32_t code, parse_char());
            append_utf8(text, code);
        }
        return literal(text);
    }

    base::Result<Expr> parse_class() {
        const bool negated = reader_.take("^");
        std::vector<CodeRange> ranges;
        while (!reader_.take("]")) {
            if (reader_.done()) return reader_.error("expected ']' at the end of a class");
            TRY(const char32_t first, parse_char());
            char32_t last = first;
            if (reader_.peek() == '-' && reader_.peek(1) != ']' && reader_.peek(1) != '\0') {
                reader_.take("-");
                const std::size_t at = reader_.position();
                TRY(last, parse_char());
                if (last < first) {
                    reader_.seek(at);
                    return reader_.error("expected a range that ascends");
                }
            }
            ranges.push_back({first, last});
        }
        const CharSet set = make_char_set(std::move(ranges));
        if (!negated && set.empty()) return reader_.error("the class is empty");
        return chars(negated ? complement(set) : set);
    }

    // One character of a literal or class, perhaps escaped.
    base::Result<char32_t> parse_char() {
        if (!reader_.take("\\")) return reader_.take_char();
        const std::size_t at = reader_.position();
        const char kind = reader_.peek();
        reader_.seek(at + 1);
        switch (kind) {
            case 'n':
                return char32_t{'\n'};
            case 'r':
                return char32_t{'\r'};
            case 't':
                return char32_t{'\t'};
            case '"':
            case '\\':
            case '[':
            case ']':
            case '-':
            case '^':
                return static_cast<char32_t>(kind);
            case 'x':
            case 'u':
            case 'U':
                return parse_code(kind);
            default:
                reader_.seek(at);
                return reader_.error(
                    "expected an escape of \\n \\r \\t \\\" \\\\ \\[ \\] \\- \\^ \\x \\u \\U");
        }
    }

    base::Result<char32_t> parse_code(char kind) {
        const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        const auto code = reader_.take_hex(digits);
        if (!code) {
            return reader_.error(
                fmt::format("expected {} hexadecimal digits after \\{}", digits, kind));
        }
        if (*code > kLastCodePoint || (*code >= 0xD800 && *code <= 0xDFFF)) {
            return reader_.error(
                fmt::format("U+{:X} is no character", static_cast<std::uint32_t>(*code)));
        }
        return *code;
    }

    TextReader reader_;
    Grammar grammar_;
    std::map<std::string, Name, std::less<>> names_;
};

}  // namespace

base::Result<Grammar> parse_gbnf(std::string_view text) {
    return GbnfParser(text).parse();
}

}  // namespace helix::text::grammar
