#include "text/grammar/json_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/grammar/marked_text.h"
#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

constexpr CodeRange kControls{0x00, 0x1F};

Expr digits(std::int32_t min, std::int32_t max) {
    return repeat(one_of("0-9"), min, max);
}

Expr hex(std::int32_t count) {
    return repeat(one_of("0-9a-fA-F"), count, count);
}

// What may follow "\u": a character, or a pair of surrogates, which Python does not know.
std::vector<Expr> unicode_escapes(bool pairs) {
    std::vector<Expr> out;
    out.push_back(sequence({one_of("0-9a-ceA-CEfF"), hex(3)}));
    out.push_back(sequence({one_of("dD"), one_of("0-7"), hex(2)}));
    if (!pairs) return out;
    out.push_back(sequence({one_of("dD"), one_of("89abAB"), hex(2), literal("\\u"), one_of("dD"),
                            one_of("c-fC-F"), hex(2)}));
    return out;
}

Expr escape_of(char32_t code) {
    switch (code) {
        case '"':
            return literal("\\\"");
        case '\\':
            return literal("\\\\");
        case '\n':
            return literal("\\n");
        case '\r':
            return literal("\\r");
        case '\t':
            return literal("\\t");
        case '\b':
            return literal("\\b");
        case '\f':
            return literal("\\f");
        default:
            return literal(fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code)));
    }
}

const CharSet& escaped_characters() {
    static const CharSet kSet = make_char_set({kControls, {'"', '"'}, {'\\', '\\'}});
    return kSet;
}

Expr encoded(const CharSet& set) {
    std::vector<Expr> out;
    CharSet plain = subtract(set, escaped_characters());
    if (!plain.empty()) out.push_back(chars(std::move(plain)));
    for (const CodeRange& range : intersect(set, escaped_characters())) {
        for (char32_t code = range.first; code <= range.last; ++code) {
            out.push_back(escape_of(code));
        }
    }
    if (out.empty()) return chars({});
    return out.size() == 1 ? std::move(out.front()) : choice(std::move(out));
}

// ---- ranges of numbers, by digits
// --------------------------------------------------------------------

Expr digit_between(char low, char high) {
    return chars({{static_cast<char32_t>(low), static_cast<char32_t>(high)}});
}

bool all_are(std::string_view text, char digit) {
    return text.find_first_not_of(digit) == std::string_view::npos;
}

// Numbers between two of the same length, leading zeros included.
Expr between(std::string_view low, std::string_view high) {
    const auto n = static_cast<std::int32_t>(low.size());
    if (n == 0) return {};
    if (all_are(low, '0') && all_are(high, '9')) return digits(n, n);
    if (low[0] == high[0]) {
        return sequence({digit_between(low[0], low[0]), between(low.substr(1), high.substr(1))});
    }
    const std::string nines(low.size() - 1, '9');
    const std::string zeros(low.size() - 1, '0');
    std::vector<Expr> out;
    char first = low[0];
    char last = high[0];
    if (!all_are(low.substr(1), '0')) {
        out.push_back(sequence({digit_between(first, first), between(low.substr(1), nines)}));
        ++first;
    }
    const bool partial_end = !all_are(high.substr(1), '9');
    if (partial_end) --last;
    if (first <= last) out.push_back(sequence({digit_between(first, last), digits(n - 1, n - 1)}));
    if (partial_end) {
        out.push_back(sequence({digit_between(high[0], high[0]), between(zeros, high.substr(1))}));
    }
    return choice(std::move(out));
}

// Natural numbers without leading zeros, low <= high.
void append_natural(std::string_view low, std::string_view high, std::string_view sign,
                    std::vector<Expr>& out) {
    for (std::size_t length = low.size(); length <= high.size(); ++length) {
        const std::string smallest =
            length == low.size() ? std::string(low) : "1" + std::string(length - 1, '0');
        const std::string largest =
            length == high.size() ? std::string(high) : std::string(length, '9');
        out.push_back(sequence({literal(sign), between(smallest, largest)}));
    }
}

}  // namespace

RuleIndex JsonRules::define(RuleIndex& known, std::string_view name, Expr body) {
    if (known < 0) known = grammar_.add(std::string(name));
    grammar_.body(known) = std::move(body);
    return known;
}

Expr JsonRules::space() {
    if (space_ < 0) {
        define(space_, "json space",
               optional(choice(
                   {literal(" "), sequence({literal("\n"), repeat(one_of(" \t"), 0, 20)})})));
    }
    return rule(space_);
}

Expr JsonRules::character() {
    CHECK(!has_raw_strings(notation_));
    if (character_ < 0) {
        const bool json = notation_ == Notation::json;
        define(character_, "json character",
               choice({chars(complement(escaped_characters())),
                       sequence({literal("\\"), one_of(json ? "\"\\/bfnrt" : "\"\\bfnrt")}),
                       sequence({literal("\\u"), choice(unicode_escapes(json))})}));
    }
    return rule(character_);
}

Expr JsonRules::string() {
    if (string_ >= 0) return rule(string_);
    if (has_raw_strings(notation_)) {
        const auto never = never_in_strings(notation_);
        const std::string quote(never.front());
        const std::vector<std::string> others(never.begin() + 1, never.end());
        define(string_, "string", sequence({literal(quote), text_up_to({&quote, 1}, others)}));
    } else {
        define(string_, "json string", quoted(repeat(character(), 0)));
    }
    return rule(string_);
}

Expr JsonRules::integer() {
    if (integer_ < 0) {
        define(integer_, "json integer",
               sequence({optional(literal("-")),
                         choice({literal("0"), sequence({one_of("1-9"), digits(0, 14)})})}));
    }
    return rule(integer_);
}

Expr JsonRules::number() {
    if (number_ < 0) {
        define(
            number_, "json number",
            sequence({integer(), optional(sequence({literal("."), digits(1, 16)})),
                      optional(sequence({one_of("eE"), optional(one_of("+-")), digits(1, 2)}))}));
    }
    return rule(number_);
}

Expr JsonRules::boolean() {
    return choice(
        {literal(*written_value(notation_, true)), literal(*written_value(notation_, false))});
}

Expr JsonRules::null() {
    return literal(*written_value(notation_, nullptr));
}

Expr JsonRules::name() {
    if (!has_raw_strings(notation_)) return string();
    return choice({repeat(one_of("A-Za-z0-9_"), 1), string()});
}

Expr JsonRules::value() {
    if (value_ < 0) {
        value_ = grammar_.add("json value");  // before its parts, which refer to it
        define(value_, "", choice({object(), array(), string(), number(), boolean(), null()}));
    }
    return rule(value_);
}

Expr JsonRules::object() {
    if (object_ < 0) {
        object_ = grammar_.add("json object");
        const Expr member = sequence({name(), space(), literal(":"), space(), value()});
        define(
            object_, "",
            bracketed(*this, "{",
                      optional(sequence(
                          {member, repeat(sequence({space(), literal(","), space(), member}), 0)})),
                      "}"));
    }
    return rule(object_);
}

Expr JsonRules::array() {
    if (array_ < 0) {
        array_ = grammar_.add("json array");
        const Expr item = value();
        define(array_, "",
               bracketed(*this, "[",
                         optional(sequence(
                             {item, repeat(sequence({space(), literal(","), space(), item}), 0)})),
                         "]"));
    }
    return rule(array_);
}

Expr JsonRules::inside_string(const Expr& e) const {
    return has_raw_strings(notation_) ? e : inside_json_string(e);
}

Expr JsonRules::quoted(Expr inside) const {
    const Expr quote = literal(quote_of(notation_));
    return sequence({quote, std::move(inside), quote});
}

Expr bracketed(JsonRules& json, std::string_view open, Expr inside, std::string_view close) {
    return sequence({literal(open), json.space(), std::move(inside), json.space(), literal(close)});
}

Expr inside_json_string(const Expr& e) {
    if (e.kind == Expr::Kind::chars) return encoded(e.chars);
    if (e.kind == Expr::Kind::graph) {
        StateGraph inside = *e.graph;
        for (Expr& label : inside.labels) label = inside_json_string(label);
        return graph(std::move(inside));
    }
    Expr out = e;
    for (Expr& item : out.items) item = inside_json_string(item);
    return out;
}

Expr integers_between(std::string_view low, std::string_view high) {
    std::vector<Expr> out;
    const bool low_negative = low.starts_with('-');
    const bool high_negative = high.starts_with('-');
    if (low_negative) {
        append_natural(high_negative ? high.substr(1) : "1", low.substr(1), "-", out);
    }
    if (!high_negative) append_natural(low_negative ? "0" : low, high, "", out);
    return choice(std::move(out));
}

}  // namespace helix::text::grammar
