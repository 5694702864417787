#include "text/grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "spec/bounded_json.h"
#include "text/grammar/json_schema.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxSteps = 5'000;  // schemas looked at; those of merged branches count every time
constexpr std::size_t kMaxOneOf = 32;  // each pair is compared
constexpr std::uint64_t kMaxWork = 2'000'000;
constexpr std::size_t kSmallExpr =
    8;  // an expression of at most this size is copied and not made a rule

// The keywords that are read, here or in the parts for one type.
constexpr std::array<std::string_view, 29> kKeywords = {
    "type",        "nullable", "enum",     "const",           "anyOf",
    "oneOf",       "allOf",    "$ref",     "$defs",           "definitions",
    "properties",  "required", "items",    "minItems",        "additionalProperties",
    "prefixItems", "maxItems", "pattern",  "minLength",       "maxLength",
    "format",      "minimum",  "maximum",  "default",         "exclusiveMinimum",
    "title",       "examples", "$comment", "exclusiveMaximum"};
constexpr std::array<std::string_view, 10> kAnnotations = {
    "description", "$schema",   "$id",     "$anchor",          "deprecated",
    "readOnly",    "writeOnly", "example", "contentMediaType", "discriminator"};

struct TypeName {
    std::string_view name;
    SchemaType type;
};
constexpr std::array<TypeName, 7> kTypeNames = {{{"null", kNullType},
                                                 {"boolean", kBooleanType},
                                                 {"integer", kIntegerType},
                                                 {"number", kNumberType},
                                                 {"string", kStringType},
                                                 {"array", kArrayType},
                                                 {"object", kObjectType}}};

// A keyword that only speaks of one type says which type is meant where none is named.
struct TypeHint {
    std::string_view keyword;
    unsigned types;
};
constexpr std::array<TypeHint, 15> kTypeHints = {{{"properties", kObjectType},
                                                  {"required", kObjectType},
                                                  {"additionalProperties", kObjectType},
                                                  {"items", kArrayType},
                                                  {"prefixItems", kArrayType},
                                                  {"minItems", kArrayType},
                                                  {"maxItems", kArrayType},
                                                  {"pattern", kStringType},
                                                  {"format", kStringType},
                                                  {"minLength", kStringType},
                                                  {"maxLength", kStringType},
                                                  {"minimum", kIntegerType},
                                                  {"maximum", kIntegerType},
                                                  {"exclusiveMinimum", kIntegerType},
                                                  {"exclusiveMaximum", kIntegerType}}};

template <std::size_t n>
bool among(const std::array<std::string_view, n>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

base::Result<unsigned> type_named(const SchemaJson& name, const std::string& place) {
    if (name.is_string()) {
        for (const TypeName& known : kTypeNames) {
            if (name.get_ref<const std::string&>() == known.name)
                return static_cast<unsigned>(known.type);
        }
    }
    return schema_error(place, fmt::format("type {} is none of null, boolean, integer, number, "
                                           "string, array, object",
                                           name.dump()));
}

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

// Whether an expression has at most `left` parts.
bool is_small(const Expr& e, std::size_t& left) {
    if (left == 0 || e.text.size() > 64) return false;
    --left;
    return std::all_of(e.items.begin(), e.items.end(),
                       [&left](const Expr& item) { return is_small(item, left); });
}

bool has(const SchemaJson& s, const char* keyword) {
    return s.contains(keyword);
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

SchemaType type_of(const SchemaJson& value) {
    if (value.is_null()) return kNullType;
    if (value.is_boolean()) return kBooleanType;
    if (value.is_number_float()) return kNumberType;
    if (value.is_number()) return kIntegerType;
    if (value.is_string()) return kStringType;
    return value.is_array() ? kArrayType : kObjectType;
}

bool admits_type(unsigned types, SchemaType type) {
    return (types & type) != 0 || (type == kIntegerType && (types & kNumberType) != 0);
}

base::Result<std::int32_t> schema_count(const SchemaJson& s, const char* keyword,
                                        std::int32_t otherwise, const std::string& place) {
    const auto it = s.find(keyword);
    if (it == s.end()) return otherwise;
    const bool whole = it->is_number_unsigned() && it->get<std::uint64_t>() <= kMaxRepeats;
    if (!whole) {
        return schema_error(place, fmt::format("{} is {}; expected a whole number from 0 to {}",
                                               keyword, it->dump(), kMaxRepeats));
    }
    return it->get<std::int32_t>();
}

base::Status SchemaCompiler::charge(std::uint64_t steps, const std::string& place) {
    work_ += steps;
    if (work_ <= kMaxWork) return base::Ok{};
    return schema_error(
        place, fmt::format("the schema is too costly: reading it takes more than {} steps; use "
                           "fewer alternatives, shorter lists or $ref",
                           kMaxWork));
}

base::Status SchemaCompiler::charge(const SchemaJson& s, const std::string& place) {
    return charge(weight(s), place);
}

Expr SchemaCompiler::shared(Expr e, const char* name) {
    std::size_t left = kSmallExpr;
    return is_small(e, left) ? std::move(e) : rule(grammar_.add(name, std::move(e)));
}

base::Result<Grammar> SchemaCompiler::compile() {
    const RuleIndex root = grammar_.add("root");
    references_["#"] = root;
    TRY(Expr body, schema(root_, "#"));
    grammar_.body(root) = std::move(body);
    grammar_.root = root;
    return std::move(grammar_);
}

base::Result<Expr> SchemaCompiler::schema(const SchemaJson& s, const std::string& place) {
    if (s.is_boolean()) {
        if (s.get<bool>()) return json_.value();
        return schema_error(place, "the schema is false, so nothing can be written here");
    }
    if (!s.is_object()) {
        return schema_error(
            place, fmt::format("expected a schema, an object or true, got {:.40}", s.dump()));
    }
    if (depth_ >= kMaxDepth) {
        return schema_error(place, fmt::format("schemas are nested more than {} deep", kMaxDepth));
    }
    if (++steps_ > kMaxSteps) {
        return schema_error(place, fmt::format("the schema is too large: its combinations are more "
                                               "than {} schemas",
                                               kMaxSteps));
    }
    // Equal schemas are read once, wherever they stand.
    TRY_VOID(charge(s, place));
    const std::string text = s.dump();
    const auto known = schemas_.find(text);
    if (known != schemas_.end()) return known->second;
    ++depth_;
    auto made = new_schema(s, place);
    --depth_;
    if (made.ok()) schemas_.emplace(text, *made);
    return made;
}

base::Result<Expr> SchemaCompiler::new_schema(const SchemaJson& s, const std::string& place) {
    TRY_VOID(check_keywords(s, place));
    TRY(Expr made, combined(s, place));
    return shared(std::move(made), "schema");
}

base::Status SchemaCompiler::check_keywords(const SchemaJson& s, const std::string& place) const {
    for (const auto& [key, value] : s.items()) {
        if (among(kKeywords, key) || among(kAnnotations, key)) continue;
        if (key.starts_with("x-")) continue;
        if (key == "uniqueItems" && value == false) continue;
        return schema_error(place, fmt::format("keyword \"{}\" is not supported", key));
    }
    return base::Ok{};
}

base::Result<Expr> SchemaCompiler::combined(const SchemaJson& s, const std::string& place) {
    if (has(s, "$ref")) return reference(s, place);
    if (has(s, "allOf")) return all_of(s, place);
    if (has(s, "anyOf")) return any_of(s, "anyOf", place);
    if (has(s, "oneOf")) return any_of(s, "oneOf", place);
    if (has(s, "enum") || has(s, "const")) return values(s, place);
    return typed(s, place);
}

base::Result<Expr> SchemaCompiler::any_of(const SchemaJson& s, const char* keyword,
                                          const std::string& place) {
    const std::string here = schema_place(place, keyword);
    const SchemaJson& branches = s[keyword];
    if (!branches.is_array() || branches.empty()) {
        return schema_error(here, "expected an array of schemas");
    }
    const bool only_one = std::string_view(keyword) == "oneOf";
    if (only_one && branches.size() > kMaxOneOf) {
        return schema_error(here, fmt::format("more than {} schemas; use anyOf", kMaxOneOf));
    }
    SchemaJson rest = s;
    rest.erase(std::string(keyword));
    std::vector<SchemaJson> merged;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        TRY_VOID(charge(rest, here));
        TRY(SchemaJson branch, merge(rest, branches[i], schema_place(here, std::to_string(i))));
        merged.push_back(std::move(branch));
    }
    std::vector<Expr> out;
    for (std::size_t i = 0; i < merged.size(); ++i) {
        for (std::size_t j = 0; only_one && j < merged.size(); ++j) {
            if (i == j) continue;
            TRY(const bool are_apart, apart(merged[i], merged[j], 0));
            if (are_apart) continue;
            return schema_error(here,
                                fmt::format("a value may match both [{}] and [{}]; use anyOf, "
                                            "or tell them apart by type or by a required "
                                            "property with different constants",
                                            std::min(i, j), std::max(i, j)));
        }
        TRY(Expr branch, schema(merged[i], schema_place(here, std::to_string(i))));
        out.push_back(std::move(branch));
    }
    return choice(std::move(out));
}

base::Result<Expr> SchemaCompiler::all_of(const SchemaJson& s, const std::string& place) {
    const std::string here = schema_place(place, "allOf");
    const SchemaJson& parts = s["allOf"];
    if (!parts.is_array() || parts.empty()) {
        return schema_error(here, "expected an array of schemas");
    }
    SchemaJson merged = s;
    merged.erase("allOf");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        TRY(merged, merge(std::move(merged), parts[i], schema_place(here, std::to_string(i))));
    }
    return schema(merged, place);
}

base::Result<Expr> SchemaCompiler::reference(const SchemaJson& s, const std::string& place) {
    const std::string here = schema_place(place, "$ref");
    if (!s["$ref"].is_string()) return schema_error(here, "expected a string");
    const auto name = s["$ref"].get<std::string>();
    TRY(const SchemaJson* target, resolve(name, here));
    SchemaJson rest = s;
    rest.erase("$ref");
    for (const std::string_view annotation : kAnnotations) rest.erase(std::string(annotation));
    for (const char* key : {"$defs", "definitions", "title", "default", "examples", "$comment"}) {
        rest.erase(std::string(key));
    }
    if (!rest.empty()) {
        TRY(const SchemaJson merged, merge(std::move(rest), *target, place));
        return schema(merged, place);
    }
    const auto known = references_.find(name);
    if (known != references_.end()) return rule(known->second);
    const RuleIndex index = grammar_.add(name);
    references_[name] = index;
    TRY(Expr body, schema(*target, name));
    grammar_.body(index) = std::move(body);
    return rule(index);
}

base::Result<const SchemaJson*> SchemaCompiler::resolve(const std::string& reference,
                                                        const std::string& place) const {
    if (!reference.starts_with('#')) {
        return schema_error(place, fmt::format("\"{}\" is outside of this schema; only references "
                                               "that begin with # are supported",
                                               reference));
    }
    try {
        return &root_.at(SchemaJson::json_pointer(reference.substr(1)));
    } catch (const SchemaJson::exception&) {
        return schema_error(place, fmt::format("there is no \"{}\" in the schema", reference));
    }
}

// The values that enum and const leave, as they are written without spaces.
base::Result<Expr> SchemaCompiler::values(const SchemaJson& s, const std::string& place) {
    TRY(const unsigned allowed, types(s, place));
    std::vector<SchemaJson> candidates;
    if (has(s, "enum")) {
        if (!s["enum"].is_array() || s["enum"].empty()) {
            return schema_error(schema_place(place, "enum"), "expected an array of values");
        }
        candidates.assign(s["enum"].begin(), s["enum"].end());
    }
    if (has(s, "const")) {
        const SchemaJson& only = s["const"];
        const bool in_enum = !has(s, "enum") || std::find(candidates.begin(), candidates.end(),
                                                          only) != candidates.end();
        candidates.clear();
        if (in_enum) candidates.push_back(only);
    }
    for (const char* keyword : {"properties", "required", "items", "prefixItems", "pattern",
                                "format", "minLength", "maxLength", "minimum", "maximum",
                                "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}) {
        if (!has(s, keyword)) continue;
        return schema_error(place, fmt::format("keyword \"{}\" beside enum or const is not "
                                               "supported; leave out the values it excludes",
                                               keyword));
    }
    std::vector<Expr> out;
    std::set<std::string> written;
    for (const SchemaJson& value : candidates) {
        if (has(s, "type") && !admits_type(allowed, type_of(value))) continue;
        const auto [text, is_new] = written.insert(value.dump());
        if (is_new) out.push_back(literal(*text));
    }
    if (out.empty()) return schema_error(place, "no value of enum or const has the type asked for");
    return choice(std::move(out));
}

base::Result<unsigned> SchemaCompiler::types(const SchemaJson& s, const std::string& place) const {
    unsigned found = 0;
    if (has(s, "type")) {
        const std::string here = schema_place(place, "type");
        const SchemaJson list = s["type"].is_array() ? s["type"] : SchemaJson::array({s["type"]});
        for (const SchemaJson& name : list) {
            TRY(const unsigned type, type_named(name, here));
            found |= type;
        }
        if (found == 0) return schema_error(here, "the list of types is empty");
    } else {
        for (const TypeHint& hint : kTypeHints) {
            if (s.contains(std::string(hint.keyword))) found |= hint.types;
        }
        if (found == 0) return static_cast<unsigned>(kAllTypes);
    }
    if (has(s, "nullable") && s["nullable"] == true) found |= kNullType;
    return found;
}

base::Result<Expr> SchemaCompiler::typed(const SchemaJson& s, const std::string& place) {
    TRY(unsigned allowed, types(s, place));
    if (allowed == kAllTypes) return json_.value();
    if ((allowed & kNumberType) != 0) allowed &= ~static_cast<unsigned>(kIntegerType);
    std::vector<Expr> out;
    for (const TypeName& known : kTypeNames) {
        if ((allowed & known.type) == 0) continue;
        TRY(Expr e, of_type(s, known.type, place));
        out.push_back(std::move(e));
    }
    return out.size() == 1 ? std::move(out.front()) : choice(std::move(out));
}

base::Result<Expr> SchemaCompiler::of_type(const SchemaJson& s, SchemaType type,
                                           const std::string& place) {
    switch (type) {
        case kNullType:
            return literal("null");
        case kBooleanType:
            return json_.boolean();
        case kIntegerType:
            return integer(s, place);
        case kNumberType:
            return number(s, place);
        case kStringType:
            return string(s, place);
        case kArrayType:
            return array(s, place);
        default:
            return object(s, place);
    }
}

base::Result<Grammar> json_schema_grammar(const nlohmann::ordered_json& schema) {
    return SchemaCompiler(schema).compile();
}

base::Result<Grammar> json_schema_grammar(std::string_view schema) {
    SchemaJson parsed;
    const auto problem = spec::read_bounded_json(schema, {.depth = 4 * kMaxDepth}, parsed);
    if (problem && problem->over_limit) {
        return base::invalid("the schema cannot be read: " + problem->message);
    }
    if (problem) {
        return base::invalid(
            fmt::format("the schema is not valid JSON: {:.200}", problem->message));
    }
    return json_schema_grammar(parsed);
}

Grammar json_object_grammar() {
    Grammar grammar;
    JsonRules json(grammar);
    const Expr object = json.object();
    grammar.root = object.rule;
    return grammar;
}

}  // namespace helix::text::grammar
