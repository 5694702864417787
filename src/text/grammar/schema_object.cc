// Objects and arrays of a schema.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "text/grammar/schema_compiler.h"
#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

constexpr std::size_t kMaxNameBytes = 256;     // each character nests an expression
constexpr std::size_t kMaxPrefixItems = 1000;  // each nests one

struct Property {
    Expr member;  // "name": value
    bool required = false;
};

Expr after_comma(JsonRules& json, Expr e) {
    std::vector<Expr> items{json.space(), literal(","), json.space()};
    items.push_back(std::move(e));
    return sequence(std::move(items));
}

Expr member(JsonRules& json, Expr name, Expr value) {
    return sequence({std::move(name), json.space(), literal(":"), json.space(), std::move(value)});
}

// All names but these, as strings without escapes, so that no property comes twice in another
// spelling. It walks through the tree of the names' characters, from where `done` of them are read.
Expr other_names(const std::vector<std::u32string>& names, std::size_t done, const Expr& any) {
    CharSet next;
    bool may_end = true;
    std::vector<Expr> out;
    for (std::size_t i = 0; i < names.size();) {
        if (names[i].size() == done) {
            may_end = false;
            ++i;
            continue;
        }
        const char32_t c = names[i][done];
        std::vector<std::u32string> same;
        for (; i < names.size() && names[i].size() > done && names[i][done] == c; ++i) {
            same.push_back(names[i]);
        }
        next.push_back({c, c});
        out.push_back(sequence({chars({{c, c}}), other_names(same, done + 1, any)}));
    }
    out.push_back(
        sequence({chars(subtract(any.chars, make_char_set(std::move(next)))), repeat(any, 0)}));
    if (may_end) out.push_back({});
    return choice(std::move(out));
}

std::u32string code_points(std::string_view text) {
    std::u32string out;
    while (!text.empty()) {
        const std::size_t length = utf8_prefix(text).length;
        const auto lead = static_cast<unsigned char>(text[0]);
        char32_t code = length == 1 ? lead : lead & (0x7FU >> length);
        for (std::size_t i = 1; i < length; ++i) {
            code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
        }
        out += code;
        text.remove_prefix(length);
    }
    return out;
}

Expr name_besides(const std::set<std::string>& taken) {
    std::vector<std::u32string> names;
    const Expr any = chars(complement(make_char_set({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})));
    for (const std::string& name : taken) {
        const std::u32string points = code_points(name);
        const bool plain = std::all_of(points.begin(), points.end(),
                                       [&any](char32_t c) { return contains(any.chars, c); });
        if (plain) names.push_back(points);  // another is not written without escapes
    }
    std::sort(names.begin(), names.end());
    return sequence({literal("\""), other_names(names, 0, any), literal("\"")});
}

// Properties in order, each at most once and with commas between, then any number of others. There
// are rules "from property i on" for before and after the first property that is written.
Expr members(Grammar& grammar, JsonRules& json, const std::vector<Property>& properties,
             const std::optional<Expr>& other) {
    Expr before;
    Expr after;
    if (other) {
        after = repeat(after_comma(json, *other), 0);
        before = optional(sequence({*other, after}));
    }
    for (std::size_t i = properties.size(); i-- > 0;) {
        const Property& property = properties[i];
        const Expr after_this = rule(grammar.add("object members", std::move(after)));
        const Expr written = sequence({property.member, after_this});
        const Expr with_comma = after_comma(json, written);
        after = property.required ? with_comma : choice({with_comma, after_this});
        if (property.required) {
            before = written;
        } else {
            const Expr skipped = rule(grammar.add("object members", std::move(before)));
            before = choice({written, skipped});
        }
    }
    return before;
}

}  // namespace

base::Result<Expr> SchemaCompiler::object(const SchemaJson& s, const std::string& place) {
    static const SchemaJson kNone = SchemaJson::object();
    const SchemaJson& named = s.contains("properties") ? s["properties"] : kNone;
    if (!named.is_object()) {
        return schema_error(schema_place(place, "properties"), "expected an object of schemas");
    }
    SchemaJson required = s.contains("required") ? s["required"] : SchemaJson::array();
    const auto is_name = [](const SchemaJson& name) { return name.is_string(); };
    TRY_VOID(charge(named.size() + required.size(), place));
    if (!required.is_array() || !std::all_of(required.begin(), required.end(), is_name)) {
        return schema_error(schema_place(place, "required"), "expected an array of names");
    }
    const SchemaJson additional =
        s.contains("additionalProperties") ? s["additionalProperties"] : SchemaJson(named.empty());
    const std::string in_properties = schema_place(place, "properties");
    std::vector<Property> properties;
    std::set<std::string> needed_names;
    for (const SchemaJson& name : required) needed_names.insert(name.get<std::string>());
    std::set<std::string> all_names;
    for (const auto& [name, value] : named.items()) {
        all_names.insert(name);
        const bool needed = needed_names.contains(name);
        if (value == false && !needed) continue;
        TRY(Expr e, schema(value, schema_place(in_properties, name)));
        properties.push_back(
            {member(json_, literal(SchemaJson(name).dump()), std::move(e)), needed});
    }
    for (const SchemaJson& name : required) {
        const auto text = name.get<std::string>();
        if (!all_names.insert(text).second) continue;
        if (additional == false && s.contains("additionalProperties")) {
            return schema_error(schema_place(place, "required"),
                                fmt::format("\"{}\" is not among the properties, and "
                                            "additionalProperties is false",
                                            text));
        }
        TRY(Expr e, schema(s.contains("additionalProperties") ? additional : SchemaJson(true),
                           schema_place(schema_place(place, "required"), text)));
        properties.push_back({member(json_, literal(name.dump()), std::move(e)), true});
    }
    std::optional<Expr> other;
    if (additional != false) {
        TRY(Expr value, schema(additional, schema_place(place, "additionalProperties")));
        for (const std::string& name : all_names) {
            if (name.size() <= kMaxNameBytes) continue;
            return schema_error(place, fmt::format("a property name of more than {} bytes beside "
                                                   "additional properties is not supported",
                                                   kMaxNameBytes));
        }
        other = shared(member(json_, all_names.empty() ? json_.string() : name_besides(all_names),
                              std::move(value)),
                       "additional property");
    }
    return bracketed(json_, "{", members(grammar_, json_, properties, other), "}");
}

base::Result<Expr> SchemaCompiler::array(const SchemaJson& s, const std::string& place) {
    TRY(const std::int32_t min, schema_count(s, "minItems", 0, place));
    TRY(const std::int32_t max, schema_count(s, "maxItems", kNoLimit, place));
    if (max != kNoLimit && max < min) {
        return schema_error(place, fmt::format("minItems {} is more than maxItems {}", min, max));
    }
    const SchemaJson prefix = s.contains("prefixItems") ? s["prefixItems"] : SchemaJson::array();
    if (!prefix.is_array()) {
        return schema_error(schema_place(place, "prefixItems"), "expected an array of schemas");
    }
    if (prefix.size() > kMaxPrefixItems) {
        return schema_error(schema_place(place, "prefixItems"),
                            fmt::format("more than {} schemas", kMaxPrefixItems));
    }
    if (s.contains("items") && s["items"].is_array()) {
        return schema_error(schema_place(place, "items"),
                            "expected one schema; for one each, use prefixItems");
    }
    const auto fixed = static_cast<std::int32_t>(prefix.size());
    const bool open = s.contains("items") ? s["items"] != false : fixed == 0 || min > fixed;
    if (!open && min > fixed) {
        return schema_error(place, fmt::format("minItems {} is more than prefixItems has", min));
    }
    // Built from the last item back: what may follow after i items, comma included.
    Expr rest;
    const bool more = open && (max == kNoLimit || max > fixed);
    if (more) {
        const SchemaJson& each = s.contains("items") ? s["items"] : SchemaJson(true);
        TRY(Expr item, schema(each, schema_place(place, "items")));
        const std::int32_t least = std::max(min - fixed, 0);
        const std::int32_t most = max == kNoLimit ? kNoLimit : max - fixed;
        if (fixed == 0) {
            Expr others = repeat(after_comma(json_, item), std::max(least - 1, 0),
                                 most == kNoLimit ? kNoLimit : most - 1);
            rest = sequence({std::move(item), std::move(others)});
            if (least == 0) rest = optional(std::move(rest));
        } else {
            rest = repeat(after_comma(json_, item), least, most);
        }
    }
    const std::int32_t used = max == kNoLimit ? fixed : std::min(fixed, max);
    for (std::int32_t i = used; i-- > 0;) {
        const auto at = static_cast<std::size_t>(i);
        TRY(Expr item, schema(prefix[at],
                              schema_place(schema_place(place, "prefixItems"), std::to_string(i))));
        std::vector<Expr> both;
        both.push_back(std::move(item));
        both.push_back(std::move(rest));
        Expr from_here = sequence(std::move(both));
        if (i > 0) from_here = after_comma(json_, std::move(from_here));
        rest = i < min ? std::move(from_here) : optional(std::move(from_here));
    }
    return bracketed(json_, "[", std::move(rest), "]");
}

}  // namespace helix::text::grammar
