// Strings and numbers of a schema.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"

namespace helix::text::grammar {
namespace {

// Dates and times of RFC 3339, as patterns over the string's own characters.
constexpr std::string_view kLeapDay =
    "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29";
constexpr std::string_view kOtherDays =
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr std::string_view kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kUuid =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
constexpr std::string_view kByte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
constexpr std::string_view kEmail =
    "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,32}){0,3}@([A-Za-z0-9](-?[A-Za-z0-9]){0,30}\\.){1,4}"
    "[A-Za-z]{2,24}";

std::string format_pattern(std::string_view format) {
    const std::string date = fmt::format("({}|{})", kLeapDay, kOtherDays);
    if (format == "date") return date;
    if (format == "time") return std::string(kTime);
    if (format == "date-time") return fmt::format("{}T{}", date, kTime);
    if (format == "uuid") return std::string(kUuid);
    if (format == "ipv4") return fmt::format("{}(\\.{}){{3}}", kByte, kByte);
    if (format == "email") return std::string(kEmail);
    return {};
}

// The keyword as an integer bound, rounded inwards; nothing when it is absent.
base::Result<std::optional<std::int64_t>> bound(const SchemaJson& s, const char* keyword,
                                                bool lower, const std::string& place) {
    using Maybe = std::optional<std::int64_t>;
    const auto it = s.find(keyword);
    if (it == s.end()) return Maybe();
    if (!it->is_number() || std::abs(it->get<double>()) > 9e15) {
        return schema_error(
            place, fmt::format("{} is {:.40}; expected a number within 9e15", keyword, it->dump()));
    }
    const bool exclusive = std::string_view(keyword).starts_with("exclusive");
    const auto value = it->get<double>();
    const double whole = lower ? std::ceil(value) : std::floor(value);
    auto out = static_cast<std::int64_t>(whole);
    if (exclusive && whole == value) out += lower ? 1 : -1;
    return Maybe(out);
}

}  // namespace

base::Result<Expr> schema_format(const std::string& format, const std::string& place) {
    const std::string pattern = format_pattern(format);
    if (pattern.empty()) {
        return schema_error(place, fmt::format("format \"{}\" is not supported; known are date, "
                                               "time, date-time, uuid, ipv4, email",
                                               format));
    }
    return parse_pattern("^(" + pattern + ")$", Expr());
}

base::Result<Expr> SchemaCompiler::string(const SchemaJson& s, const std::string& place) {
    for (const char* keyword : {"pattern", "format"}) {
        if (!s.contains(keyword)) continue;
        for (const char* other : {"minLength", "maxLength", "pattern"}) {
            if (std::string_view(keyword) == other || !s.contains(other)) continue;
            return schema_error(
                place, fmt::format("{} together with {} is not supported", keyword, other));
        }
        const std::string here = schema_place(place, keyword);
        if (!s[keyword].is_string()) return schema_error(here, "expected a string");
        const auto text = s[keyword].get<std::string>();
        const std::string name = std::string(keyword) + " " + text;
        const auto known = strings_.find(name);
        if (known != strings_.end()) return known->second;
        TRY_VOID(charge(16 + text.size(), here));
        auto e = std::string_view(keyword) == "format" ? schema_format(text, here)
                                                       : parse_pattern(text, json_.character());
        if (!e.ok()) {
            return std::string_view(keyword) == "format" ? e.error()
                                                         : schema_error(here, e.error().message);
        }
        Expr made =
            shared(sequence({literal("\""), inside_json_string(*e), literal("\"")}), keyword);
        return strings_.emplace(name, std::move(made)).first->second;
    }
    TRY(const std::int32_t min, schema_count(s, "minLength", 0, place));
    TRY(const std::int32_t max, schema_count(s, "maxLength", kNoLimit, place));
    if (max != kNoLimit && max < min) {
        return schema_error(place, fmt::format("minLength {} is more than maxLength {}", min, max));
    }
    if (min == 0 && max == kNoLimit) return json_.string();
    return sequence({literal("\""), repeat(json_.character(), min, max), literal("\"")});
}

base::Result<Expr> SchemaCompiler::integer(const SchemaJson& s, const std::string& place) {
    std::optional<std::int64_t> low;
    std::optional<std::int64_t> high;
    for (const char* keyword : {"minimum", "exclusiveMinimum"}) {
        TRY(const auto at_least, bound(s, keyword, true, place));
        if (at_least) low = std::max(low.value_or(*at_least), *at_least);
    }
    for (const char* keyword : {"maximum", "exclusiveMaximum"}) {
        TRY(const auto at_most, bound(s, keyword, false, place));
        if (at_most) high = std::min(high.value_or(*at_most), *at_most);
    }
    if (!low && !high) return json_.integer();
    const std::int64_t from = low.value_or(std::min(-kLargestInteger, high.value_or(0)));
    const std::int64_t to = high.value_or(std::max(kLargestInteger, from));
    if (from > to) {
        return schema_error(place,
                            fmt::format("no integer is at least {} and at most {}", from, to));
    }
    return integers_between(from, to);
}

base::Result<Expr> SchemaCompiler::number(const SchemaJson& s, const std::string& place) {
    for (const char* keyword : {"maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (!s.contains(keyword)) continue;
        return schema_error(
            place, fmt::format("{} is supported for integers only, not for numbers", keyword));
    }
    const Expr any = json_.number();
    if (!s.contains("minimum")) return any;
    if (s["minimum"] != 0) {
        return schema_error(place, "for numbers only a minimum of 0 is supported");
    }
    // The same without a sign.
    const auto digits = [](std::int32_t low, std::int32_t high) {
        return repeat(one_of("0-9"), low, high);
    };
    return sequence({choice({literal("0"), sequence({one_of("1-9"), digits(0, 14)})}),
                     optional(sequence({literal("."), digits(1, 16)})),
                     optional(sequence({one_of("eE"), optional(one_of("+-")), digits(1, 2)}))});
}

}  // namespace helix::text::grammar
