// Objects of a schema.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

constexpr std::size_t kMaxNameBytes = 256;   // each character nests an expression
constexpr std::size_t kMaxNameSets = 64;     // by which patterns match
constexpr std::size_t kMaxCounted = 20'000;  // rules for objects whose properties are counted

Expr member_after_comma(JsonRules& json, Expr e) {
    std::vector<Expr> items{json.space(), literal(","), json.space()};
    items.push_back(std::move(e));
    return sequence(std::move(items));
}

Expr member(JsonRules& json, Expr name, Expr value) {
    return sequence({std::move(name), json.space(), literal(":"), json.space(), std::move(value)});
}

// Characters that names are written with where they are not listed: none needs an escape or begins
// a mark, so that no property comes twice in another spelling.
CharSet name_characters(Notation notation) {
    if (has_raw_strings(notation)) return complement(make_char_set({{0, 0x1F}, {'<', '<'}}));
    return complement(make_char_set({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
}

// All names but these. It walks through the tree of the names' characters, from where `done` of
// them are read.
Expr names_besides(const std::vector<std::u32string>& names, std::size_t done, const Expr& any) {
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
        out.push_back(sequence({chars({{c, c}}), names_besides(same, done + 1, any)}));
    }
    out.push_back(
        sequence({chars(subtract(any.chars, make_char_set(std::move(next)))), repeat(any, 0)}));
    if (may_end) out.push_back({});
    return choice(std::move(out));
}

Expr name_besides(const std::vector<std::string>& taken, const JsonRules& json) {
    std::vector<std::u32string> names;
    const Expr any = chars(name_characters(json.notation()));
    for (const std::string& name : taken) {
        const std::u32string points = code_points(name);
        const bool plain = std::all_of(points.begin(), points.end(),
                                       [&any](char32_t c) { return contains(any.chars, c); });
        if (plain) names.push_back(points);  // another is not written without escapes
    }
    std::sort(names.begin(), names.end());
    Expr in_quotes = json.quoted(names_besides(names, 0, any));
    if (!has_raw_strings(json.notation())) return in_quotes;
    names.insert(names.begin(), std::u32string());  // a name without quotes is not empty
    return choice({names_besides(names, 0, one_of("A-Za-z0-9_")), std::move(in_quotes)});
}

bool is_listed(const SchemaFacts::ObjectLayer& layer, const std::string& name) {
    return layer.properties != nullptr && layer.properties->contains(name);
}

}  // namespace

// The schema of a property, from all layers; nullptr when the name cannot be there.
base::Result<const SchemaJson*> SchemaCompiler::property_schema(const Facts& facts,
                                                                const std::string& name) {
    std::vector<const SchemaJson*> parts;
    for (const Facts::ObjectLayer& layer : facts.objects) {
        bool described = is_listed(layer, name);
        if (described) parts.push_back(&(*layer.properties)[name]);
        if (layer.patterns != nullptr) {
            for (const auto& [pattern, value] : layer.patterns->items()) {
                TRY(const bool matches, text_matches(name, pattern));
                if (!matches) continue;
                described = true;
                parts.push_back(&value);
            }
        }
        if (!described && layer.others != nullptr) parts.push_back(layer.others);
    }
    return reader_.all_of(std::move(parts));
}

// The names that are listed, in the order of the schema; then those that are required besides.
// Where propertyNames lists names and others may be there, these, too.
base::Result<std::vector<std::string>> SchemaCompiler::listed_names(const Facts& facts,
                                                                    const std::string& place) {
    std::vector<std::string> out;
    std::set<std::string> known;
    bool others = facts.objects.empty();
    for (const Facts::ObjectLayer& layer : facts.objects) {
        others |= layer.others != nullptr || layer.patterns != nullptr;
        if (layer.properties == nullptr) continue;
        TRY_VOID(reader_.charge(layer.properties->size(), place));
        for (const auto& [name, value] : layer.properties->items()) {
            if (known.insert(name).second) out.push_back(name);
        }
    }
    for (const std::string& name : facts.required) {
        if (known.insert(name).second) out.push_back(name);
    }
    for (const SchemaJson* names : facts.names) {
        Facts name;
        TRY_VOID(reader_.add(*names, schema_place(place, "propertyNames"), name));
        if (!others || !name.values) continue;
        for (const SchemaJson& value : *name.values) {
            if (value.is_string() && known.insert(value.get<std::string>()).second) {
                out.push_back(value);
            }
        }
    }
    return out;
}

base::Result<bool> SchemaCompiler::may_be_named(const Facts& facts, const std::string& name) {
    for (const SchemaJson* names : facts.names) {
        TRY(const bool good, holds(SchemaJson(name), *names, false));
        if (!good) return false;
    }
    return true;
}

// The names that are not listed, in sets by which schemas their values must satisfy. None where an
// object that lists names says nothing of others.
base::Result<std::vector<SchemaCompiler::OtherNames>> SchemaCompiler::other_names(
    const Facts& facts, const std::vector<std::string>& listed, const std::string& place) {
    bool said = false;
    bool lists = false;
    bool patterns = false;
    std::vector<const SchemaJson*> parts;
    for (const Facts::ObjectLayer& layer : facts.objects) {
        said |= layer.others != nullptr;
        lists |= layer.properties != nullptr && !layer.properties->empty();
        patterns |= layer.patterns != nullptr && !layer.patterns->empty();
        if (layer.others != nullptr) parts.push_back(layer.others);
    }
    std::vector<OtherNames> out;
    if (patterns || !facts.names.empty()) {
        const bool none = lists && !said && !patterns;
        if (none) return out;
        return names_by_pattern(facts, listed, place);
    }
    if (lists && !said) return out;
    const SchemaJson* value = reader_.all_of(std::move(parts));
    if (*value == false) return out;
    for (const std::string& name : listed) {
        if (name.size() <= kMaxNameBytes) continue;
        return schema_error(place, fmt::format("a property name of more than {} bytes beside "
                                               "additional properties is not supported",
                                               kMaxNameBytes));
    }
    out.push_back({listed.empty() ? json_.name() : name_besides(listed, json_), value});
    return out;
}

base::Result<std::vector<SchemaCompiler::NamePattern>> SchemaCompiler::name_patterns(
    const Facts& facts, const std::string& place) {
    std::vector<NamePattern> patterns;
    for (std::size_t i = 0; i < facts.objects.size(); ++i) {
        const Facts::ObjectLayer& layer = facts.objects[i];
        if (layer.patterns == nullptr) continue;
        for (const auto& [pattern, value] : layer.patterns->items()) {
            const std::string here = schema_place(place, "patternProperties");
            TRY_VOID(reader_.charge(16 + pattern.size(), here));
            auto parsed = parse_pattern(pattern);
            if (!parsed.ok()) {
                return schema_error(schema_place(here, pattern), parsed.error().message);
            }
            patterns.push_back({i, std::move(*parsed), &value});
        }
    }
    return patterns;
}

// What propertyNames say of all names that are not listed; nothing if there can be none.
base::Result<std::optional<std::vector<SchemaCompiler::TextSet>>> SchemaCompiler::name_conditions(
    const Facts& facts, const std::vector<std::string>& listed, Facts::Counts& length,
    const std::string& place) {
    using Conditions = std::optional<std::vector<TextSet>>;
    const std::string here = schema_place(place, "propertyNames");
    std::vector<TextSet> all{{repeat(chars(name_characters(json_.notation())), 0), false, true}};
    std::vector<Expr> others;
    for (const std::string& name : listed) others.push_back(spelled(name));
    for (const SchemaJson* names : facts.names) {
        Facts name;
        TRY_VOID(reader_.add(*names, here, name));
        if (!name.never.empty() || name.values || (name.types & kStringType) == 0) {
            return Conditions();  // none, or all are listed
        }
        if (!name.choices.empty()) {
            return schema_error(here, "anyOf and the like are not supported here");
        }
        TRY(std::vector<TextSet> sets, text_sets(name, here));
        for (TextSet& set : sets) {
            if (!set.wanted && !set.search) {
                others.push_back(std::move(set.expr));
            } else {
                all.push_back(std::move(set));
            }
        }
        length.at_least(name.length.min);
        if (name.length.max != kNoLimit) length.at_most(name.length.max);
    }
    // What is excluded is excluded together: one expression.
    if (!others.empty()) all.push_back({choice(std::move(others)), false, false});
    return Conditions(std::move(all));
}

// Divides the names by the patterns that they match.
base::Result<std::vector<SchemaCompiler::NameSet>> SchemaCompiler::divide_names(
    Dfa all, const std::vector<NamePattern>& patterns, const Alphabet& alphabet,
    const std::string& place) {
    std::vector<NameSet> sets;
    if (!all.empty()) sets.push_back({std::move(all), {}});
    for (std::size_t p = 0; p < patterns.size(); ++p) {
        const auto found = Dfa::of(patterns[p].expr, true, alphabet, budget_);
        if (!found) return too_costly(place);
        std::vector<NameSet> divided;
        for (const NameSet& set : sets) {
            auto inside = Dfa::both(set.dfa, *found, budget_);
            auto outside = Dfa::both(set.dfa, found->complement(), budget_);
            if (!inside || !outside) return too_costly(place);
            if (!inside->empty()) {
                divided.push_back({std::move(*inside), set.matched});
                divided.back().matched.push_back(p);
            }
            if (!outside->empty()) divided.push_back({std::move(*outside), set.matched});
        }
        sets = std::move(divided);
        if (sets.size() > kMaxNameSets) return too_costly(place);
    }
    return sets;
}

base::Result<std::vector<SchemaCompiler::OtherNames>> SchemaCompiler::names_by_pattern(
    const Facts& facts, const std::vector<std::string>& listed, const std::string& place) {
    TRY(const std::vector<NamePattern> patterns, name_patterns(facts, place));
    Facts::Counts length;
    TRY(const auto conditions, name_conditions(facts, listed, length, place));
    if (!conditions) return std::vector<OtherNames>();
    std::vector<CharSet> used{name_characters(json_.notation())};
    for (const NamePattern& pattern : patterns) append_char_sets(pattern.expr, used);
    for (const TextSet& set : *conditions) append_char_sets(set.expr, used);
    const Alphabet alphabet(std::move(used), budget_);
    if (budget_.spent()) return too_costly(place);
    TRY(Dfa all, dfa_of(*conditions, alphabet, place));
    TRY(const auto sets, divide_names(std::move(all), patterns, alphabet, place));
    const bool said =
        std::any_of(facts.objects.begin(), facts.objects.end(),
                    [](const Facts::ObjectLayer& layer) { return layer.others != nullptr; });
    std::vector<OtherNames> out;
    for (const NameSet& set : sets) {
        if (set.matched.empty() && !patterns.empty() && !said) continue;
        std::vector<const SchemaJson*> parts;
        std::set<std::size_t> layers;
        for (const std::size_t p : set.matched) {
            parts.push_back(patterns[p].value);
            layers.insert(patterns[p].layer);
        }
        for (std::size_t i = 0; i < facts.objects.size(); ++i) {
            const SchemaJson* others = facts.objects[i].others;
            if (others != nullptr && !layers.contains(i)) parts.push_back(others);
        }
        const SchemaJson* value = reader_.all_of(std::move(parts));
        if (*value == false) continue;
        TRY(Expr name, text_of(set.dfa, alphabet, length, place));
        if (is_nothing(name)) continue;
        out.push_back({json_.quoted(std::move(name)), value});
    }
    return out;
}

// Properties in order, each at most once and with commas between, then any number of others. There
// are rules "from property i on, when so many are written", where only as many counts as matter are
// told apart. Others may come twice, so only one of them counts for the least number.
base::Result<Expr> SchemaCompiler::members(const std::vector<Property>& properties,
                                           const std::optional<Expr>& other, Facts::Counts counts,
                                           const std::string& place) {
    const auto all = static_cast<std::int32_t>(properties.size());
    if (other && counts.min > all + 1) {
        return schema_error(place, fmt::format("minProperties {} is not supported where names are "
                                               "not listed",
                                               counts.min));
    }
    if (counts.max != kNoLimit && !other && counts.max >= all) counts.max = kNoLimit;
    const std::int32_t last = std::max({1, counts.min, counts.max});
    if (static_cast<std::size_t>(last) * (properties.size() + 1) > kMaxCounted) {
        return schema_error(place,
                            "minProperties or maxProperties is not supported for so many "
                            "properties");
    }
    const auto columns = static_cast<std::size_t>(last) + 1;
    std::vector<RuleIndex> rules((properties.size() + 1) * columns, -1);
    std::vector<std::pair<std::size_t, std::int32_t>> open;
    const auto from = [&](std::size_t i, std::int32_t count) {
        RuleIndex& index = rules[i * columns + static_cast<std::size_t>(count)];
        if (index < 0) {
            index = grammar_.add("object members");
            open.emplace_back(i, count);
        }
        return rule(index);
    };
    const auto with_comma = [this](std::int32_t count, Expr e) {
        return count == 0 ? std::move(e) : member_after_comma(json_, std::move(e));
    };
    Expr root = from(0, 0);
    while (!open.empty()) {
        const auto [i, count] = open.back();
        open.pop_back();
        const bool full = counts.max != kNoLimit && count >= counts.max;
        std::vector<Expr> ways;
        if (i == properties.size()) {
            const std::int32_t left = counts.max == kNoLimit ? kNoLimit : counts.max - count;
            if (count >= counts.min) ways.emplace_back();
            if (other && !full && count + 1 >= counts.min) {
                Expr more = repeat(member_after_comma(json_, *other), 0,
                                   left == kNoLimit ? kNoLimit : left - 1);
                ways.push_back(with_comma(count, sequence({*other, std::move(more)})));
            }
        } else {
            const Property& property = properties[i];
            if (!full && !is_nothing(property.member)) {
                ways.push_back(with_comma(
                    count, sequence({property.member, from(i + 1, std::min(count + 1, last))})));
            }
            if (!property.required) ways.push_back(from(i + 1, count));
        }
        const RuleIndex index = rules[i * columns + static_cast<std::size_t>(count)];
        grammar_.body(index) = ways.empty() ? nothing() : choice(std::move(ways));
    }
    return root;
}

base::Result<Expr> SchemaCompiler::object(const Facts& facts, const std::string& place) {
    if (facts.properties.max != kNoLimit && facts.properties.max < facts.properties.min) {
        return never(place + fmt::format(": minProperties {} is more than maxProperties {}",
                                         facts.properties.min, facts.properties.max));
    }
    TRY(const std::vector<std::string> listed, listed_names(facts, place));
    const std::set<std::string> required(facts.required.begin(), facts.required.end());
    const std::string inside = schema_place(place, "properties");
    std::vector<Property> properties;
    for (const std::string& name : listed) {
        const bool needed = required.contains(name);
        TRY(const bool may_be, may_be_named(facts, name));
        TRY(const SchemaJson* value, property_schema(facts, name));
        Expr e = nothing();
        if (may_be && *value != false) {
            TRY(e, schema(*value, schema_place(inside, name)));
        }
        const auto written = written_name(json_.notation(), name);
        if (!written) e = nothing();
        if (is_nothing(e) && !needed) continue;
        if (is_nothing(e)) {
            return never(place + fmt::format(": \"{}\" is required, and cannot be there", name));
        }
        properties.push_back({member(json_, literal(*written), std::move(e)), needed});
    }
    TRY(const std::vector<OtherNames> others, other_names(facts, listed, place));
    std::vector<Expr> other;
    for (const OtherNames& set : others) {
        TRY(Expr value, schema(*set.value, schema_place(place, "additionalProperties")));
        if (is_nothing(value)) continue;
        other.push_back(shared(member(json_, set.name, std::move(value)), "additional property"));
    }
    std::optional<Expr> any_other;
    if (!other.empty()) any_other = other.size() == 1 ? other.front() : choice(std::move(other));
    TRY(Expr all, members(properties, any_other, facts.properties, place));
    return bracketed(json_, "{", std::move(all), "}");
}

}  // namespace helix::text::grammar
