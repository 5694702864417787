// Whether values satisfy schemas, by the words of JSON schema, and whether schemas exclude each
// other.

#include <algorithm>
#include <set>

#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

constexpr int kMaxCheckDepth = 64;

bool within(std::size_t count, const SchemaFacts::Counts& counts) {
    return count >= static_cast<std::size_t>(counts.min) &&
           (counts.max == kNoLimit || count <= static_cast<std::size_t>(counts.max));
}

bool is_multiple(const Decimal& value, const Decimal& of) {
    // Scaled to whole numbers, and divided digit by digit.
    const std::size_t after = std::max(value.fraction.size(), of.fraction.size());
    const auto scaled = [after](const Decimal& d) {
        return d.whole + d.fraction + std::string(after - d.fraction.size(), '0');
    };
    const std::string divisor_text = scaled(of);
    if (divisor_text.size() > 18) return false;
    const std::uint64_t divisor = std::stoull(divisor_text);
    std::uint64_t rest = 0;
    for (const char c : scaled(value)) {
        rest = (rest * 10 + static_cast<std::uint64_t>(c - '0')) % divisor;
    }
    return rest == 0;
}

bool number_holds(const Decimal& value, const SchemaFacts::Numbers& said) {
    const auto& low = said.low;
    const auto& high = said.high;
    if (low && (value < low->value || (low->exclusive && value == low->value))) return false;
    if (high && (value > high->value || (high->exclusive && value == high->value))) return false;
    return std::all_of(said.multiples_of.begin(), said.multiples_of.end(),
                       [&value](const Decimal& of) { return is_multiple(value, of); });
}

bool ranges_apart(const SchemaFacts::Numbers& a, const SchemaFacts::Numbers& b) {
    const auto below = [](const auto& high, const auto& low) {
        if (!high || !low) return false;
        return high->value < low->value ||
               (high->value == low->value && (high->exclusive || low->exclusive));
    };
    return below(a.high, b.low) || below(b.high, a.low);
}

bool counts_apart(const SchemaFacts::Counts& a, const SchemaFacts::Counts& b) {
    return (a.max != kNoLimit && a.max < b.min) || (b.max != kNoLimit && b.max < a.min);
}

}  // namespace

base::Result<bool> SchemaCompiler::all_hold(const SchemaJson& value, const Facts& facts,
                                            bool if_unknown) {
    for (const SchemaJson* source : facts.sources) {
        TRY(const bool good, holds(value, *source, if_unknown));
        if (!good) return false;
    }
    return true;
}

base::Result<bool> SchemaCompiler::holds(const SchemaJson& value, const SchemaJson& s,
                                         bool if_unknown) {
    if (s.is_boolean()) return s.get<bool>();
    if (!s.is_object()) return schema_error("#", "expected a schema, an object or true");
    TRY_VOID(reader_.charge(1 + s.size(), "#"));
    if (check_depth_ >= kMaxCheckDepth) return schema_error("#", "references lead in a circle");
    ++check_depth_;
    auto result = holds_inside(value, s, if_unknown);
    --check_depth_;
    return result;
}

base::Result<bool> SchemaCompiler::holds_inside(const SchemaJson& value, const SchemaJson& s,
                                                bool if_unknown) {
    if (s.contains("type")) {
        TRY(unsigned types, schema_types(s["type"], "#"));
        if (s.contains("nullable") && s["nullable"] == true) types |= kNullType;
        if ((types & type_of(value)) == 0) return false;
    }
    if (s.contains("const") && s["const"] != value) return false;
    if (s.contains("enum") && s["enum"].is_array()) {
        TRY(const bool listed, in_list(value, s["enum"]));
        if (!listed) return false;
    }
    TRY(const bool combined, combination_holds(value, s, if_unknown));
    if (!combined) return false;
    if (value.is_number()) {
        TRY_VOID(reader_.charge(8, "#"));
        Facts facts;
        TRY_VOID(reader_.add(only_numbers(s), "#", facts));
        const auto number = Decimal::of(value);
        return number ? number_holds(*number, facts.numbers) : if_unknown;
    }
    if (value.is_string()) return text_holds(value.get_ref<const std::string&>(), s, if_unknown);
    if (value.is_array()) return array_holds(value, s, if_unknown);
    if (value.is_object()) return object_holds(value, s, if_unknown);
    return true;
}

base::Result<bool> SchemaCompiler::in_list(const SchemaJson& value, const SchemaJson& list) {
    const auto [known, is_new] = lists_.try_emplace(&list);
    if (is_new) {
        TRY_VOID(reader_.charge(list, "#"));
        for (const SchemaJson& item : list) known->second.insert(item.dump());
    }
    if (known->second.contains(value.dump())) return true;
    if (!value.is_number() && !value.is_structured()) return false;
    // Numbers may be equal in other spellings.
    TRY_VOID(reader_.charge(list, "#"));
    return std::find(list.begin(), list.end(), value) != list.end();
}

const SchemaJson& SchemaCompiler::only_numbers(const SchemaJson& s) {
    SchemaJson out = SchemaJson::object();
    for (const char* keyword :
         {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
        if (s.contains(keyword)) out[keyword] = s[keyword];
    }
    return *reader_.keep(std::move(out));
}

base::Result<bool> SchemaCompiler::text_matches(const std::string& text,
                                                const std::string& pattern) {
    TRY_VOID(reader_.charge(16 + text.size() + pattern.size(), "#"));
    auto parsed = parse_pattern(pattern);
    if (!parsed.ok()) return schema_error(schema_place("#", pattern), parsed.error().message);
    auto known = matchers_.find(pattern);
    if (known == matchers_.end()) {
        std::vector<CharSet> used;
        append_char_sets(*parsed, used);
        Alphabet alphabet(std::move(used), budget_);
        if (budget_.spent()) return too_costly("#");
        auto dfa = Dfa::of(*parsed, true, alphabet, budget_);
        if (!dfa) return too_costly("#");
        known = matchers_.emplace(pattern, std::pair(std::move(alphabet), std::move(*dfa))).first;
    }
    const auto& [alphabet, dfa] = known->second;
    return dfa.matches(code_points(text), alphabet);
}

base::Result<bool> SchemaCompiler::text_holds(const std::string& text, const SchemaJson& s,
                                              bool if_unknown) {
    TRY(const std::int32_t min, schema_count(s, "minLength", 0, "#"));
    TRY(const std::int32_t max, schema_count(s, "maxLength", kNoLimit, "#"));
    if (!within(code_points(text).size(), {min, max})) return false;
    if (s.contains("pattern") && s["pattern"].is_string()) {
        TRY(const bool good, text_matches(text, s["pattern"]));
        if (!good) return false;
    }
    if (!s.contains("format") || !s["format"].is_string()) return true;
    const auto format = s["format"].get<std::string>();
    if (is_unknown_format(format)) return true;
    const std::string pattern = format_pattern(format);
    if (pattern.empty()) return if_unknown;
    // Some texts have a format that the pattern leaves out.
    TRY(const bool good, text_matches(text, "^(?:" + pattern + ")$"));
    return good || if_unknown;
}

base::Result<bool> SchemaCompiler::array_holds(const SchemaJson& value, const SchemaJson& s,
                                               bool if_unknown) {
    Facts said;
    const bool draft_7 = s.contains("items") && s["items"].is_array();
    TRY(said.items.min, schema_count(s, "minItems", 0, "#"));
    TRY(said.items.max, schema_count(s, "maxItems", kNoLimit, "#"));
    if (!within(value.size(), said.items)) return false;
    const char* list = draft_7 ? "items" : "prefixItems";
    const char* others = draft_7 ? "additionalItems" : "items";
    const auto first = s.find(list);
    const auto rest = s.find(others);
    for (std::size_t i = 0; i < value.size(); ++i) {
        const bool own = first != s.end() && first->is_array() && i < first->size();
        if (!own && rest == s.end()) continue;
        TRY(const bool good, holds(value[i], own ? (*first)[i] : *rest, if_unknown));
        if (!good) return false;
    }
    if (s.contains("contains")) {
        bool found = false;
        for (const SchemaJson& item : value) {
            TRY(const bool good, holds(item, s["contains"], if_unknown));
            found |= good;
        }
        if (!found) return false;
    }
    if (!s.contains("uniqueItems") || s["uniqueItems"] != true) return true;
    TRY_VOID(reader_.charge(value.size() * value.size(), "#"));
    for (std::size_t i = 0; i < value.size(); ++i) {
        if (std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
            value.begin() + static_cast<std::ptrdiff_t>(i)) {
            return false;
        }
    }
    return true;
}

base::Result<bool> SchemaCompiler::object_holds(const SchemaJson& value, const SchemaJson& s,
                                                bool if_unknown) {
    Facts said;
    const SchemaJson* kept = reader_.keep(only_objects(s));
    TRY_VOID(reader_.charge(*kept, "#"));
    TRY_VOID(reader_.add(*kept, "#", said));
    if (!within(value.size(), said.properties)) return false;
    for (const std::string& name : said.required) {
        if (!value.contains(name)) return false;
    }
    for (const auto& [name, member] : value.items()) {
        TRY(const SchemaJson* schema, property_schema(said, name));
        const SchemaJson& inside = *schema;
        TRY(const bool good, holds(member, inside, if_unknown));
        if (!good) return false;
        for (const SchemaJson* names : said.names) {
            TRY(const bool named, holds(SchemaJson(name), *names, if_unknown));
            if (!named) return false;
        }
    }
    for (const Facts::Choice& choice : said.choices) {  // dependents
        bool found = false;
        for (const SchemaJson* branch : choice.branches) {
            TRY(const bool good, holds(value, *branch, if_unknown));
            found |= good;
        }
        if (!found) return false;
    }
    return true;
}

SchemaJson SchemaCompiler::only_objects(const SchemaJson& s) {
    SchemaJson out = SchemaJson::object();
    for (const char* keyword :
         {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
          "required", "propertyNames", "minProperties", "maxProperties", "dependentRequired",
          "dependentSchemas", "dependencies"}) {
        if (s.contains(keyword)) out[keyword] = s[keyword];
    }
    return out;
}

base::Result<bool> SchemaCompiler::combination_holds(const SchemaJson& value, const SchemaJson& s,
                                                     bool if_unknown) {
    const auto count = [&](const char* keyword, std::size_t& good) -> base::Status {
        good = 0;
        for (const SchemaJson& branch : s[keyword]) {
            TRY(const bool one, holds(value, branch, if_unknown));
            good += one ? 1U : 0U;
        }
        return base::Ok{};
    };
    std::size_t good = 0;
    if (s.contains("anyOf") && s["anyOf"].is_array()) {
        TRY_VOID(count("anyOf", good));
        if (good == 0) return false;
    }
    if (s.contains("allOf") && s["allOf"].is_array()) {
        TRY_VOID(count("allOf", good));
        if (good != s["allOf"].size()) return false;
    }
    TRY(const bool one, one_of_holds(value, s, if_unknown));
    if (!one) return false;
    TRY(const bool condition, condition_holds(value, s, if_unknown));
    if (!condition) return false;
    if (!s.contains("$ref")) return true;
    TRY(const SchemaJson* target, reader_.resolve(s["$ref"], "#"));
    return holds(value, *target, if_unknown);
}

base::Result<bool> SchemaCompiler::one_of_holds(const SchemaJson& value, const SchemaJson& s,
                                                bool if_unknown) {
    if (!s.contains("oneOf") || !s["oneOf"].is_array()) return true;
    std::size_t good = 0;
    // One that surely holds, and no other that may.
    std::size_t may = 0;
    for (const SchemaJson& branch : s["oneOf"]) {
        TRY(const bool sure, holds(value, branch, false));
        TRY(const bool possible, holds(value, branch, true));
        good += sure ? 1U : 0U;
        may += possible ? 1U : 0U;
    }
    const bool sure = good == 1 && may == 1;
    const bool possible = good <= 1 && may >= 1;
    return if_unknown ? possible : sure;
}

base::Result<bool> SchemaCompiler::condition_holds(const SchemaJson& value, const SchemaJson& s,
                                                   bool if_unknown) {
    if (s.contains("not")) {
        TRY(const bool other, holds(value, s["not"], !if_unknown));
        if (other) return false;
    }
    if (s.contains("if") && (s.contains("then") || s.contains("else"))) {
        TRY(const bool sure, holds(value, s["if"], false));
        TRY(const bool possible, holds(value, s["if"], true));
        if (sure != possible) return if_unknown;
        const char* branch = sure ? "then" : "else";
        if (s.contains(branch)) {
            TRY(const bool follows, holds(value, s[branch], if_unknown));
            if (!follows) return false;
        }
    }
    return true;
}

base::Result<bool> SchemaCompiler::apart(const Facts& a, const Facts& b, int depth) {
    TRY_VOID(reader_.charge(1, "#"));
    if (!a.never.empty() || !b.never.empty()) return true;
    if (depth > 8) return false;
    if (a.values || b.values) {
        const Facts& listed = a.values ? a : b;
        const Facts& other = a.values ? b : a;
        for (const SchemaJson& value : *listed.values) {
            TRY(const bool own, all_hold(value, listed, true));
            if (!own) continue;
            TRY(const bool both, all_hold(value, other, true));
            if (both) return false;
        }
        return true;
    }
    // A choice may still name the types that are written.
    const unsigned common = b.types & (a.choices.empty() ? a.written_types() : a.types);
    for (const unsigned type : {1U, 2U, 4U, 8U, 16U, 32U, 64U}) {
        if ((common & type) == 0) continue;
        TRY(const bool are_apart, type_apart(a, b, type, depth));
        if (are_apart) continue;
        if (a.choices.empty() || depth > 2) return false;
        // Each way to write a must be apart.
        for (const SchemaJson* branch : a.choices.front().branches) {
            Facts way = a;
            way.choices.erase(way.choices.begin());
            TRY_VOID(reader_.charge(4 + a.sources.size(), "#"));
            TRY_VOID(reader_.add(*branch, a.choices.front().place, way));
            TRY(const bool way_apart, apart(way, b, depth + 1));
            if (!way_apart) return false;
        }
        return true;
    }
    return true;
}

base::Result<bool> SchemaCompiler::type_apart(const Facts& a, const Facts& b, unsigned type,
                                              int depth) {
    switch (type) {
        case kIntegerType:
        case kFractionType:
            return ranges_apart(a.numbers, b.numbers);
        case kStringType:
            if (counts_apart(a.length, b.length)) return true;
            return strings_apart(a, b);
        case kArrayType:
            return counts_apart(a.items, b.items);
        case kObjectType:
            return objects_apart(a, b, depth);
        default:
            return false;
    }
}

// By their patterns alone: formats leave out some texts that have them.
base::Result<bool> SchemaCompiler::strings_apart(const Facts& a, const Facts& b) {
    Facts both;
    for (const Facts* facts : {&a, &b}) {
        const Facts::Strings& said = facts->strings;
        both.strings.patterns.insert(both.strings.patterns.end(), said.patterns.begin(),
                                     said.patterns.end());
        both.strings.no_patterns.insert(both.strings.no_patterns.end(), said.no_patterns.begin(),
                                        said.no_patterns.end());
    }
    if (both.strings.patterns.size() + both.strings.no_patterns.size() < 2) return false;
    TRY(const std::vector<TextSet> sets, text_sets(both, "#"));
    std::vector<CharSet> used;
    for (const TextSet& set : sets) append_char_sets(set.expr, used);
    const Alphabet alphabet(std::move(used), budget_);
    if (budget_.spent()) return too_costly("#");
    TRY(const Dfa dfa, dfa_of(sets, alphabet, "#"));
    return dfa.empty();
}

base::Result<bool> SchemaCompiler::objects_apart(const Facts& a, const Facts& b, int depth) {
    if (counts_apart(a.properties, b.properties)) return true;
    std::set<std::string> names(a.required.begin(), a.required.end());
    names.insert(b.required.begin(), b.required.end());
    TRY(const std::vector<std::string> listed, listed_names(a, "#"));
    const std::set<std::string> in_a(listed.begin(), listed.end());
    // Whether other names may be there; a choice may still add some.
    bool open = !a.choices.empty();
    bool lists = false;
    for (const Facts::ObjectLayer& layer : a.objects) {
        open |= layer.others != nullptr || layer.patterns != nullptr;
        lists |= layer.properties != nullptr && !layer.properties->empty();
    }
    open |= !lists;
    for (const std::string& name : names) {
        if (!in_a.contains(name) && !open) return true;
        TRY(const SchemaJson* of_a, property_schema(a, name));
        TRY(const SchemaJson* of_b, property_schema(b, name));
        Facts value_a;
        Facts value_b;
        TRY_VOID(reader_.add(*of_a, "#", value_a));
        TRY_VOID(reader_.add(*of_b, "#", value_b));
        TRY(const bool are_apart, apart(value_a, value_b, depth + 1));
        if (are_apart) return true;
    }
    return false;
}

}  // namespace helix::text::grammar
