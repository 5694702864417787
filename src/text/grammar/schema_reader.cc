#include "text/grammar/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace helix::text::grammar {
namespace {

constexpr std::uint64_t kMaxWork = 2'000'000;
constexpr int kMaxFollowed = 64;  // references to references, and schemas of one value

struct TypeName {
    std::string_view name;
    unsigned types;
};
constexpr std::array<TypeName, 7> kTypeNames = {{{"null", kNullType},
                                                 {"boolean", kBooleanType},
                                                 {"integer", kIntegerType},
                                                 {"number", kNumberTypes},
                                                 {"string", kStringType},
                                                 {"array", kArrayType},
                                                 {"object", kObjectType}}};

// Keywords that constrain and that are not kept.
constexpr std::array<std::string_view, 6> kUnkept = {
    "unevaluatedItems", "$dynamicRef", "$recursiveRef", "minContains", "maxContains", "extends"};

// About how many values there are, a long text counting for more.
std::uint64_t weight(const SchemaJson& s) {
    if (s.is_string()) return 1 + s.get_ref<const std::string&>().size() / 16;
    std::uint64_t sum = 1;
    if (s.is_object()) {
        for (const auto& [key, value] : s.items()) sum += 1 + key.size() / 16 + weight(value);
    } else if (s.is_array()) {
        for (const SchemaJson& value : s) sum += weight(value);
    }
    return sum;
}

base::Result<Decimal> number_of(const SchemaJson& value, const char* keyword,
                                const std::string& place) {
    const auto number = value.is_number() ? Decimal::of(value) : std::optional<Decimal>();
    if (number) return *number;
    return schema_error(place, fmt::format("{} is {:.40}; expected a number of at most {} digits",
                                           keyword, value.dump(), Decimal::kMaxDigits));
}

bool in_an_object(const SchemaJson& s, const char* keyword) {
    const auto it = s.find(keyword);
    return it == s.end() || it->is_object();
}

}  // namespace

base::Error schema_error(std::string_view place, std::string_view message) {
    return base::invalid(fmt::format("{}: {}", place, message));
}

std::string schema_place(std::string_view place, std::string_view key) {
    std::string out(place);
    out += '/';
    for (const char c : key) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

unsigned type_of(const SchemaJson& value) {
    if (value.is_null()) return kNullType;
    if (value.is_boolean()) return kBooleanType;
    if (value.is_number()) {
        const auto number = Decimal::of(value);
        return number && !number->is_whole() ? kFractionType : kIntegerType;
    }
    if (value.is_string()) return kStringType;
    return value.is_array() ? kArrayType : kObjectType;
}

base::Result<unsigned> schema_types(const SchemaJson& names, const std::string& place) {
    unsigned found = 0;
    const SchemaJson list = names.is_array() ? names : SchemaJson::array({names});
    for (const SchemaJson& name : list) {
        const auto known =
            std::find_if(kTypeNames.begin(), kTypeNames.end(), [&name](const TypeName& type) {
                return name.is_string() && name.get_ref<const std::string&>() == type.name;
            });
        if (known == kTypeNames.end()) {
            return schema_error(place, fmt::format("type {} is none of null, boolean, integer, "
                                                   "number, string, array, object",
                                                   name.dump()));
        }
        found |= known->types;
    }
    if (found == 0) return schema_error(place, "the list of types is empty");
    return found;
}

base::Result<std::int32_t> schema_count(const SchemaJson& s, const char* keyword,
                                        std::int32_t otherwise, const std::string& place) {
    const auto it = s.find(keyword);
    if (it == s.end()) return otherwise;
    const bool most = std::string_view(keyword).starts_with("max");
    const auto number = it->is_number() ? Decimal::of(*it) : std::optional<Decimal>();
    const bool whole = number && number->is_whole() && !number->negative;
    if (whole && number->whole.size() <= 9) {
        const int count = std::stoi(number->whole);
        if (count <= kMaxRepeats || most) return std::min(count, kMaxRepeats);
    }
    if (whole && most) return kMaxRepeats;
    return schema_error(place, fmt::format("{} is {}; expected a whole number from 0 to {}",
                                           keyword, it->dump(), kMaxRepeats));
}

base::Status SchemaReader::charge(std::uint64_t steps, const std::string& place) {
    work_ += steps;
    if (work_ <= kMaxWork) return base::Ok{};
    return schema_error(
        place, fmt::format("the schema is too costly: reading it takes more than {} steps; use "
                           "fewer alternatives, shorter lists or $ref",
                           kMaxWork));
}

base::Status SchemaReader::charge(const SchemaJson& s, const std::string& place) {
    return charge(weight(s), place);
}

const SchemaJson* SchemaReader::keep(SchemaJson made) {
    made_.push_back(std::move(made));
    return &made_.back();
}

const SchemaJson* SchemaReader::all_of(std::vector<const SchemaJson*> parts) {
    std::vector<const SchemaJson*> different;
    for (const SchemaJson* part : parts) {
        if (*part == true || (part->is_object() && part->empty())) continue;
        const bool known = std::any_of(different.begin(), different.end(),
                                       [part](const auto* d) { return d == part || *d == *part; });
        if (!known) different.push_back(part);
    }
    if (different.empty()) return keep(true);
    if (different.size() == 1) return different.front();
    SchemaJson list = SchemaJson::array();
    for (const SchemaJson* part : different) list.push_back(*part);
    return keep(only_keyword("allOf", std::move(list)));
}

const SchemaJson* SchemaReader::opposite(const SchemaJson* s) {
    return keep(only_keyword("not", *s));
}

base::Result<const SchemaJson*> SchemaReader::resolve(const SchemaJson& reference,
                                                      const std::string& place) {
    if (!references_.has_looked()) TRY_VOID(charge(root_, place));
    auto found = references_.resolve(reference);
    if (!found.ok()) return schema_error(place, found.error().message);
    return found;
}

void SchemaReader::add_any(std::vector<SchemaJson> branches, const std::string& place,
                           Facts& facts) {
    Facts::Choice choice{{}, false, place};
    for (SchemaJson& branch : branches) choice.branches.push_back(keep(std::move(branch)));
    facts.choices.push_back(std::move(choice));
}

base::Status SchemaReader::add(const SchemaJson& s, const std::string& place, Facts& facts) {
    if (s.is_boolean()) {
        if (!s.get<bool>() && facts.never.empty()) {
            facts.never = place + ": the schema is false, so nothing can be written here";
        }
        return base::Ok{};
    }
    if (!s.is_object()) {
        return schema_error(
            place, fmt::format("expected a schema, an object or true, got {:.40}", s.dump()));
    }
    TRY_VOID(charge(1 + s.size(), place));
    if (depth_ >= kMaxFollowed) return schema_error(place, "references lead in a circle");
    ++depth_;
    const base::Status added = add_inside(s, place, facts);
    --depth_;
    return added;
}

base::Status SchemaReader::add_inside(const SchemaJson& s, const std::string& place, Facts& facts) {
    TRY_VOID(check_unkept(s, place));
    facts.sources.push_back(&s);
    TRY_VOID(add_types(s, place, facts));
    TRY_VOID(add_values(s, place, facts));
    TRY_VOID(add_numbers(s, place, facts));
    TRY_VOID(add_strings(s, place, facts));
    TRY_VOID(add_arrays(s, place, facts));
    TRY_VOID(add_objects(s, place, facts));
    TRY_VOID(add_dependents(s, place, facts));
    TRY_VOID(add_condition(s, place, facts));
    return add_combinations(s, place, facts);
}

base::Status SchemaReader::check_unkept(const SchemaJson& s, const std::string& place) const {
    for (const std::string_view keyword : kUnkept) {
        if (!s.contains(std::string(keyword))) continue;
        return schema_error(place, fmt::format("keyword \"{}\" is not supported", keyword));
    }
    const auto unevaluated = s.find("unevaluatedProperties");
    if (unevaluated == s.end()) return base::Ok{};
    for (const char* keyword :
         {"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "not"}) {
        if (!s.contains(keyword)) continue;
        return schema_error(place, fmt::format("keyword \"unevaluatedProperties\" beside {} is not "
                                               "supported",
                                               keyword));
    }
    return base::Ok{};
}

base::Status SchemaReader::add_types(const SchemaJson& s, const std::string& place, Facts& facts) {
    const auto type = s.find("type");
    if (type == s.end()) return base::Ok{};
    TRY(unsigned types, schema_types(*type, schema_place(place, "type")));
    if (s.contains("nullable") && s["nullable"] == true) types |= kNullType;
    facts.types &= types;
    facts.typed = true;
    facts.plain = false;
    if (facts.types == 0 && facts.never.empty()) {
        facts.never = place + ": no type satisfies all of these";
    }
    return base::Ok{};
}

base::Status SchemaReader::add_values(const SchemaJson& s, const std::string& place, Facts& facts) {
    std::vector<SchemaJson> values;
    if (s.contains("enum")) {
        const SchemaJson& list = s["enum"];
        if (!list.is_array() || list.empty()) {
            return schema_error(schema_place(place, "enum"), "expected an array of values");
        }
        TRY_VOID(charge(list, place));
        values.assign(list.begin(), list.end());
    } else if (s.contains("const")) {
        values.push_back(s["const"]);
    } else {
        return base::Ok{};
    }
    facts.plain = false;
    // The values of all lists are filtered by what else holds.
    if (!facts.values || values.size() < facts.values->size()) facts.values = std::move(values);
    return base::Ok{};
}

base::Status SchemaReader::add_numbers(const SchemaJson& s, const std::string& place,
                                       Facts& facts) {
    for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        const auto it = s.find(keyword);
        if (it == s.end() || it->is_boolean()) continue;  // as draft 4 has it: beside minimum
        TRY(Decimal value, number_of(*it, keyword, place));
        const bool low = std::string_view(keyword).ends_with("inimum");
        const char* draft_4 = low ? "exclusiveMinimum" : "exclusiveMaximum";
        const bool exclusive = keyword[0] == 'e' || (s.contains(draft_4) && s[draft_4] == true);
        auto& limit = low ? facts.numbers.low : facts.numbers.high;
        const bool tighter = !limit || (low ? value > limit->value : value < limit->value) ||
                             (value == limit->value && exclusive);
        if (tighter) limit = Facts::Limit{std::move(value), exclusive};
        facts.hints |= kNumberTypes;
        facts.plain = false;
    }
    const auto divisor = s.find("multipleOf");
    if (divisor == s.end()) return base::Ok{};
    TRY(Decimal value, number_of(*divisor, "multipleOf", place));
    if (value.negative || value.is_zero()) {
        return schema_error(place, "multipleOf must be above 0");
    }
    facts.numbers.multiples_of.push_back(std::move(value));
    facts.hints |= kNumberTypes;
    facts.plain = false;
    return base::Ok{};
}

base::Status SchemaReader::add_strings(const SchemaJson& s, const std::string& place,
                                       Facts& facts) {
    TRY(const std::int32_t min, schema_count(s, "minLength", 0, place));
    TRY(const std::int32_t max, schema_count(s, "maxLength", kNoLimit, place));
    facts.length.at_least(min);
    if (max != kNoLimit) facts.length.at_most(max);
    for (const char* keyword : {"pattern", "format"}) {
        const auto it = s.find(keyword);
        if (it == s.end()) continue;
        if (!it->is_string()) {
            return schema_error(schema_place(place, keyword), "expected a string");
        }
        const auto text = it->get<std::string>();
        const bool is_pattern = keyword[0] == 'p';
        if (!is_pattern && is_unknown_format(text)) continue;
        auto& list = is_pattern ? facts.strings.patterns : facts.strings.formats;
        if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
        facts.hints |= kStringType;
        facts.plain = false;
    }
    if (s.contains("minLength") || s.contains("maxLength")) {
        facts.hints |= kStringType;
        facts.plain = false;
    }
    return base::Ok{};
}

base::Status SchemaReader::add_arrays(const SchemaJson& s, const std::string& place, Facts& facts) {
    TRY(const std::int32_t min, schema_count(s, "minItems", 0, place));
    TRY(const std::int32_t max, schema_count(s, "maxItems", kNoLimit, place));
    facts.items.at_least(min);
    if (max != kNoLimit) facts.items.at_most(max);
    const bool draft_7 = s.contains("items") && s["items"].is_array();
    const char* list = draft_7 ? "items" : "prefixItems";
    Facts::ArrayLayer layer;
    if (s.contains(list)) {
        if (!s[list].is_array()) {
            return schema_error(schema_place(place, list), "expected an array of schemas");
        }
        TRY_VOID(charge(s[list].size(), place));
        for (const SchemaJson& item : s[list]) layer.first.push_back(&item);
    }
    const char* others = draft_7 ? "additionalItems" : "items";
    if (s.contains(others)) layer.others = &s[others];
    const bool any = !layer.first.empty() || layer.others != nullptr;
    if (any) facts.arrays.push_back(std::move(layer));
    if (s.contains("contains")) facts.contains.push_back(&s["contains"]);
    if (s.contains("uniqueItems") && s["uniqueItems"] == true) facts.unique = true;
    const bool counted = s.contains("minItems") || s.contains("maxItems");
    if (any || counted || s.contains("contains") || facts.unique) {
        facts.hints |= kArrayType;
        facts.plain = false;
    }
    return base::Ok{};
}

base::Status SchemaReader::add_objects(const SchemaJson& s, const std::string& place,
                                       Facts& facts) {
    TRY(const std::int32_t min, schema_count(s, "minProperties", 0, place));
    TRY(const std::int32_t max, schema_count(s, "maxProperties", kNoLimit, place));
    facts.properties.at_least(min);
    if (max != kNoLimit) facts.properties.at_most(max);
    Facts::ObjectLayer layer;
    for (const char* keyword : {"properties", "patternProperties"}) {
        if (in_an_object(s, keyword)) continue;
        return schema_error(schema_place(place, keyword), "expected an object of schemas");
    }
    if (s.contains("properties")) layer.properties = &s["properties"];
    if (s.contains("patternProperties")) layer.patterns = &s["patternProperties"];
    if (s.contains("unevaluatedProperties")) layer.others = &s["unevaluatedProperties"];
    if (s.contains("additionalProperties")) layer.others = &s["additionalProperties"];
    const bool any =
        layer.properties != nullptr || layer.patterns != nullptr || layer.others != nullptr;
    if (any) facts.objects.push_back(layer);
    const auto required = s.find("required");
    if (required != s.end() && !required->is_boolean()) {  // draft 3 has it on the property
        const bool names = required->is_array() &&
                           std::all_of(required->begin(), required->end(),
                                       [](const SchemaJson& name) { return name.is_string(); });
        if (!names) {
            return schema_error(schema_place(place, "required"), "expected an array of names");
        }
        TRY_VOID(charge(required->size() + facts.required.size(), place));
        std::set<std::string> known(facts.required.begin(), facts.required.end());
        for (const SchemaJson& name : *required) {
            if (known.insert(name).second) facts.required.push_back(name);
        }
    }
    if (s.contains("propertyNames")) facts.names.push_back(&s["propertyNames"]);
    const bool counted = s.contains("minProperties") || s.contains("maxProperties");
    if (any || counted || s.contains("propertyNames") || required != s.end()) {
        facts.hints |= kObjectType;
        facts.plain = false;
    }
    return base::Ok{};
}

// "If there is this property, then": there is none, or it is there and the rest holds.
base::Status SchemaReader::add_dependents(const SchemaJson& s, const std::string& place,
                                          Facts& facts) {
    for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
        const auto it = s.find(keyword);
        if (it == s.end()) continue;
        if (!it->is_object())
            return schema_error(schema_place(place, keyword), "expected an object");
        for (const auto& [name, then] : it->items()) {
            TRY_VOID(charge(then, place));
            SchemaJson present = only_keyword("required", SchemaJson::array({name}));
            if (then.is_array()) {
                for (const SchemaJson& other : then) present["required"].push_back(other);
            } else {
                present["allOf"] = SchemaJson::array({then});
            }
            SchemaJson absent = only_keyword("properties", only_keyword(name, false));
            add_any({std::move(present), std::move(absent)}, schema_place(place, keyword), facts);
        }
        facts.hints |= kObjectType;
    }
    return base::Ok{};
}

base::Status SchemaReader::add_condition(const SchemaJson& s, const std::string& place,
                                         Facts& facts) {
    const auto condition = s.find("if");
    if (condition == s.end() || (!s.contains("then") && !s.contains("else"))) return base::Ok{};
    TRY_VOID(charge(s, place));
    SchemaJson yes = SchemaJson::array({*condition});
    if (s.contains("then")) yes.push_back(s["then"]);
    SchemaJson no = SchemaJson::array({only_keyword("not", *condition)});
    if (s.contains("else")) no.push_back(s["else"]);
    add_any({only_keyword("allOf", std::move(yes)), only_keyword("allOf", std::move(no))},
            schema_place(place, "if"), facts);
    return base::Ok{};
}

base::Status SchemaReader::add_choice(const SchemaJson& s, const char* keyword,
                                      const std::string& place, Facts& facts) {
    const auto it = s.find(keyword);
    if (it == s.end()) return base::Ok{};
    const std::string here = schema_place(place, keyword);
    if (!it->is_array() || it->empty()) return schema_error(here, "expected an array of schemas");
    Facts::Choice choice{{}, keyword[0] == 'o', here};
    TRY_VOID(charge(it->size(), here));
    for (const SchemaJson& branch : *it) choice.branches.push_back(&branch);
    facts.choices.push_back(std::move(choice));
    return base::Ok{};
}

base::Status SchemaReader::add_combinations(const SchemaJson& s, const std::string& place,
                                            Facts& facts) {
    if (s.contains("$ref")) {
        const std::string here = schema_place(place, "$ref");
        TRY(const SchemaJson* target, resolve(s["$ref"], here));
        TRY_VOID(add(*target, place, facts));
    }
    const auto all = s.find("allOf");
    if (all != s.end()) {
        const std::string here = schema_place(place, "allOf");
        if (!all->is_array() || all->empty()) {
            return schema_error(here, "expected an array of schemas");
        }
        for (std::size_t i = 0; i < all->size(); ++i) {
            TRY_VOID(add((*all)[i], schema_place(here, std::to_string(i)), facts));
        }
    }
    TRY_VOID(add_choice(s, "anyOf", place, facts));
    TRY_VOID(add_choice(s, "oneOf", place, facts));
    if (!s.contains("not")) return base::Ok{};
    return add_not(s["not"], schema_place(place, "not"), facts);
}

const std::string* SchemaReader::only_reference(const SchemaJson& s) const {
    static const std::set<std::string_view> kBeside = {
        "$ref",     "$defs",      "definitions", "title",    "description", "default",
        "examples", "$comment",   "$schema",     "$id",      "id",          "$anchor",
        "example",  "deprecated", "readOnly",    "writeOnly"};
    const auto it = s.is_object() ? s.find("$ref") : s.end();
    if (!s.is_object() || it == s.end() || !it->is_string()) return nullptr;
    for (const auto& [key, value] : s.items()) {
        if (!kBeside.contains(key) && !key.starts_with("x-")) return nullptr;
    }
    return &it->get_ref<const std::string&>();
}

}  // namespace helix::text::grammar
