// What holds when a schema does not.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "text/grammar/schema_reader.h"

namespace helix::text::grammar {
namespace {

// Keywords that constrain, apart from those that are read together with another.
const std::set<std::string_view>& constraining() {
    static const std::set<std::string_view> kNames = {"type",
                                                      "enum",
                                                      "const",
                                                      "minimum",
                                                      "maximum",
                                                      "exclusiveMinimum",
                                                      "exclusiveMaximum",
                                                      "multipleOf",
                                                      "minLength",
                                                      "maxLength",
                                                      "pattern",
                                                      "format",
                                                      "minItems",
                                                      "maxItems",
                                                      "items",
                                                      "prefixItems",
                                                      "contains",
                                                      "uniqueItems",
                                                      "required",
                                                      "properties",
                                                      "patternProperties",
                                                      "additionalProperties",
                                                      "propertyNames",
                                                      "minProperties",
                                                      "maxProperties",
                                                      "dependentRequired",
                                                      "dependentSchemas",
                                                      "dependencies",
                                                      "if",
                                                      "anyOf",
                                                      "oneOf",
                                                      "allOf",
                                                      "not",
                                                      "$ref"};
    return kNames;
}

// Splits a schema into parts that hold together if and only if it does, each with a keyword that
// names it.
std::vector<std::pair<std::string, SchemaJson>> parts_of(const SchemaJson& s) {
    std::vector<std::pair<std::string, SchemaJson>> out;
    for (const auto& [key, value] : s.items()) {
        if (!constraining().contains(key)) continue;
        if (key.starts_with("exclusive") && value.is_boolean()) continue;
        const bool layered = (key == "properties" || key == "patternProperties") &&
                             s.contains("additionalProperties");
        const bool second = (key == "additionalProperties" || layered) &&
                            std::any_of(out.begin(), out.end(), [](const auto& part) {
                                return part.first == "additionalProperties";
                            });
        if (second) continue;
        if (key == "items" && s.contains("prefixItems")) continue;
        if (key == "const" && s.contains("enum")) {
            out.emplace_back(key, only_keyword(key, value));
            continue;
        }
        SchemaJson part = only_keyword(key, value);
        const auto take = [&](const char* other) {
            if (s.contains(other)) part[other] = s[other];
        };
        if (key == "minimum") take("exclusiveMinimum");
        if (key == "maximum") take("exclusiveMaximum");
        if (part.contains("exclusiveMinimum") && key == "minimum" &&
            !part["exclusiveMinimum"].is_boolean()) {
            part.erase("exclusiveMinimum");
        }
        if (part.contains("exclusiveMaximum") && key == "maximum" &&
            !part["exclusiveMaximum"].is_boolean()) {
            part.erase("exclusiveMaximum");
        }
        if (key == "items") take("additionalItems");
        if (key == "prefixItems") take("items");
        if (key == "type") take("nullable");
        if (key == "if") {
            take("then");
            take("else");
        }
        if (layered || key == "additionalProperties") {
            take("properties");
            take("patternProperties");
            take("additionalProperties");
            out.emplace_back("additionalProperties", std::move(part));
            continue;
        }
        out.emplace_back(key, std::move(part));
    }
    return out;
}

base::Error cannot_negate(const std::string& keyword, const std::string& place) {
    return schema_error(place, fmt::format("\"not\" (or another branch of oneOf, or if) around "
                                           "keyword \"{}\" is not supported",
                                           keyword));
}

void narrow(SchemaFacts& facts, unsigned types, const std::string& place) {
    facts.types &= types;
    facts.typed = true;
    facts.plain = false;
    if (facts.types == 0 && facts.never.empty()) {
        facts.never = place + ": no type satisfies all of these";
    }
}

void say_never(SchemaFacts& facts, const std::string& place) {
    if (facts.never.empty()) facts.never = place + ": nothing is left, so nothing can be written";
}

}  // namespace

base::Status SchemaReader::add_not(const SchemaJson& s, const std::string& place, Facts& facts) {
    if (s.is_boolean()) return add(!s.get<bool>(), place, facts);
    if (!s.is_object()) return schema_error(place, "expected a schema, an object or true");
    TRY_VOID(charge(s, place));
    if (depth_ >= 64) return schema_error(place, "references lead in a circle");
    TRY_VOID(check_unkept(s, place));
    auto parts = parts_of(s);
    if (parts.empty()) {
        say_never(facts, place);
        return base::Ok{};
    }
    facts.sources.push_back(opposite(&s));
    if (parts.size() == 1) {
        ++depth_;
        const SchemaJson* part = keep(std::move(parts[0].second));
        const base::Status added = add_not_part(parts[0].first, *part, place, facts);
        --depth_;
        return added;
    }
    std::vector<SchemaJson> branches;
    for (auto& [keyword, part] : parts) {
        TRY_VOID(charge(part, place));
        branches.push_back(only_keyword("not", std::move(part)));
    }
    add_any(std::move(branches), place, facts);
    return base::Ok{};
}

base::Status SchemaReader::add_not_part(const std::string& keyword, const SchemaJson& part,
                                        const std::string& place, Facts& facts) {
    if (keyword == "type") {
        TRY(unsigned types, schema_types(part["type"], place));
        if (part.contains("nullable") && part["nullable"] == true) types |= kNullType;
        narrow(facts, kAllTypes & ~types, place);
        return base::Ok{};
    }
    if (keyword == "enum" || keyword == "const") {
        const SchemaJson& value = part[keyword];
        if (keyword == "enum" && !value.is_array()) {
            return schema_error(place, "expected an array of values");
        }
        const SchemaJson list = keyword == "enum" ? value : SchemaJson::array({value});
        facts.excluded.insert(facts.excluded.end(), list.begin(), list.end());
        facts.plain = false;
        return base::Ok{};
    }
    if (keyword == "pattern") {
        if (!part["pattern"].is_string()) return schema_error(place, "expected a string");
        narrow(facts, kStringType, place);
        facts.strings.no_patterns.push_back(part["pattern"]);
        return base::Ok{};
    }
    if (keyword == "format") {
        if (!part["format"].is_string() || !is_unknown_format(part["format"].get<std::string>())) {
            return cannot_negate(keyword, place);
        }
        say_never(facts, place);
        return base::Ok{};
    }
    if (keyword == "uniqueItems" && part["uniqueItems"] == false) {
        say_never(facts, place);
        return base::Ok{};
    }
    if (keyword.ends_with("imum") || keyword == "multipleOf") {
        return add_not_number(keyword, part, place, facts);
    }
    if (keyword.starts_with("min") || keyword.starts_with("max")) {
        return add_not_count(keyword, part, place, facts);
    }
    if (keyword == "required" || keyword == "properties" || keyword == "items" ||
        keyword == "contains" || keyword == "additionalProperties") {
        return add_not_object(keyword, part, place, facts);
    }
    return add_not_combination(keyword, part, place, facts);
}

base::Status SchemaReader::add_not_number(const std::string& keyword, const SchemaJson& part,
                                          const std::string& place, Facts& facts) {
    Facts said;
    TRY_VOID(add_numbers(part, place, said));
    narrow(facts, kNumberTypes, place);
    if (keyword == "multipleOf") {
        facts.numbers.no_multiples_of.push_back(said.numbers.multiples_of.front());
        return base::Ok{};
    }
    const bool low = keyword.ends_with("inimum");
    const Facts::Limit& limit = low ? *said.numbers.low : *said.numbers.high;
    // Not at least 3 is less than 3.
    const SchemaJson* number = nullptr;
    for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (part.contains(name) && part[name].is_number()) number = &part[name];
    }
    std::string opposite_name = limit.exclusive ? (low ? "maximum" : "minimum")
                                                : (low ? "exclusiveMaximum" : "exclusiveMinimum");
    return add_numbers(*keep(only_keyword(opposite_name, *number)), place, facts);
}

base::Status SchemaReader::add_not_count(const std::string& keyword, const SchemaJson& part,
                                         const std::string& place, Facts& facts) {
    TRY(const std::int32_t count, schema_count(part, keyword.c_str(), 0, place));
    const bool min = keyword.starts_with("min");
    const bool of_text = keyword.ends_with("Length");
    const bool of_items = keyword.ends_with("Items");
    narrow(facts, of_text ? kStringType : of_items ? kArrayType : kObjectType, place);
    Facts::Counts& counts = of_text ? facts.length : of_items ? facts.items : facts.properties;
    if (min && count == 0) {
        say_never(facts, place);
    } else if (min) {
        counts.at_most(count - 1);
    } else if (count >= kMaxRepeats) {
        return cannot_negate(keyword, place);
    } else {
        counts.at_least(count + 1);
    }
    return base::Ok{};
}

base::Status SchemaReader::add_not_object(const std::string& keyword, const SchemaJson& part,
                                          const std::string& place, Facts& facts) {
    if (keyword == "items" || keyword == "contains") {
        const SchemaJson& each = part[keyword];
        if (each.is_array()) return cannot_negate(keyword, place);
        narrow(facts, kArrayType, place);
        if (keyword == "items") {
            facts.contains.push_back(opposite(&each));
        } else {
            facts.arrays.push_back({{}, opposite(&each)});
        }
        return base::Ok{};
    }
    if (keyword == "additionalProperties") {
        const SchemaJson& others = part[keyword];
        const bool any = others == true || (others.is_object() && others.empty());
        if (!any) return cannot_negate(keyword, place);
        SchemaJson rest = part;
        rest.erase("additionalProperties");
        return add_not(*keep(std::move(rest)), place, facts);
    }
    std::vector<SchemaJson> branches;
    if (keyword == "required") {
        if (!part["required"].is_array()) return schema_error(place, "expected an array of names");
        for (const SchemaJson& name : part["required"]) {
            if (!name.is_string()) return schema_error(place, "expected an array of names");
            SchemaJson branch = only_keyword("type", "object");
            branch["properties"] = only_keyword(name, false);
            branches.push_back(std::move(branch));
        }
    } else {
        if (!part["properties"].is_object()) return schema_error(place, "expected an object");
        for (const auto& [name, value] : part["properties"].items()) {
            if (value == true || (value.is_object() && value.empty())) continue;
            SchemaJson branch = only_keyword("type", "object");
            branch["required"] = SchemaJson::array({name});
            branch["properties"] = only_keyword(name, only_keyword("not", value));
            branches.push_back(std::move(branch));
        }
    }
    if (branches.empty()) {
        say_never(facts, place);
    } else if (branches.size() == 1) {
        return add(*keep(std::move(branches.front())), place, facts);
    } else {
        add_any(std::move(branches), place, facts);
    }
    return base::Ok{};
}

base::Status SchemaReader::add_not_combination(const std::string& keyword, const SchemaJson& part,
                                               const std::string& place, Facts& facts) {
    if (keyword == "$ref") {
        TRY(const SchemaJson* target, resolve(part["$ref"], place));
        return add_not(*target, place, facts);
    }
    if (keyword == "not") return add(part["not"], place, facts);
    const bool list = keyword == "anyOf" || keyword == "allOf" || keyword == "oneOf";
    if (!list || !part[keyword].is_array()) return cannot_negate(keyword, place);
    const SchemaJson& branches = part[keyword];
    if (keyword == "anyOf") {
        for (const SchemaJson& branch : branches) TRY_VOID(add_not(branch, place, facts));
        return base::Ok{};
    }
    constexpr std::size_t kMaxOfOne = 6;
    if (keyword == "oneOf" && branches.size() > kMaxOfOne) return cannot_negate(keyword, place);
    std::vector<SchemaJson> out;
    if (keyword == "allOf") {
        for (const SchemaJson& branch : branches) out.push_back(only_keyword("not", branch));
    } else {  // none, or two of them
        SchemaJson none = SchemaJson::array();
        for (std::size_t i = 0; i < branches.size(); ++i) {
            none.push_back(only_keyword("not", branches[i]));
            for (std::size_t j = i + 1; j < branches.size(); ++j) {
                out.push_back(only_keyword("allOf", SchemaJson::array({branches[i], branches[j]})));
            }
        }
        out.push_back(only_keyword("allOf", std::move(none)));
    }
    for (const SchemaJson& branch : out) TRY_VOID(charge(branch, place));
    add_any(std::move(out), place, facts);
    return base::Ok{};
}

}  // namespace helix::text::grammar
