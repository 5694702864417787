// Arrays of a schema.

#include <fmt/format.h>

#include <algorithm>

#include "text/grammar/schema_compiler.h"

namespace helix::text::grammar {
namespace {

constexpr std::size_t kMaxFirstItems = 1000;   // each nests an expression
constexpr std::int32_t kMaxContaining = 100;   // items of an array that must contain something
constexpr std::size_t kMaxDifferentItems = 7;  // each set of them is a rule

Expr item_after_comma(JsonRules& json, Expr e) {
    std::vector<Expr> items{json.space(), literal(","), json.space()};
    items.push_back(std::move(e));
    return sequence(std::move(items));
}

}  // namespace

// The schema of an item at a position; nullptr when any value may stand there.
const SchemaJson* SchemaCompiler::item_schema(const Facts& facts, std::size_t position) {
    std::vector<const SchemaJson*> parts;
    for (const Facts::ArrayLayer& layer : facts.arrays) {
        if (position < layer.first.size()) {
            parts.push_back(layer.first[position]);
        } else if (layer.others != nullptr) {
            parts.push_back(layer.others);
        }
    }
    return reader_.all_of(std::move(parts));
}

// The items with schemas of their own, as far as there may be any.
base::Result<std::vector<Expr>> SchemaCompiler::first_items(const Facts& facts,
                                                            const std::string& place) {
    std::size_t count = 0;
    for (const Facts::ArrayLayer& layer : facts.arrays) count = std::max(count, layer.first.size());
    if (count > kMaxFirstItems) {
        return schema_error(schema_place(place, "prefixItems"),
                            fmt::format("more than {} schemas", kMaxFirstItems));
    }
    std::vector<Expr> out;
    for (std::size_t i = 0; i < count; ++i) {
        TRY(Expr item, schema(*item_schema(facts, i),
                              schema_place(schema_place(place, "prefixItems"), std::to_string(i))));
        const bool none = is_nothing(item);
        out.push_back(std::move(item));
        if (none) break;
    }
    return out;
}

base::Result<Expr> SchemaCompiler::array(const Facts& facts, const std::string& place) {
    const std::int32_t min = facts.items.min;
    std::int32_t max = facts.items.max;
    TRY(std::vector<Expr> first, first_items(facts, place));
    const bool ends_early = !first.empty() && is_nothing(first.back());
    if (ends_early) first.pop_back();
    const auto fixed = static_cast<std::int32_t>(first.size());
    if (ends_early && (max == kNoLimit || max > fixed)) max = fixed;
    const bool others = std::any_of(facts.arrays.begin(), facts.arrays.end(),
                                    [](const auto& layer) { return layer.others != nullptr; });
    const bool open = others || fixed == 0 || min > fixed;
    if (facts.unique && (max == kNoLimit || max > 1)) {
        if (fixed == 0 && facts.contains.empty()) return without_repeats(facts, place);
        return schema_error(place, "keyword \"uniqueItems\" is not supported here");
    }
    Expr each = nothing();
    if (open && (max == kNoLimit || max > fixed)) {
        TRY(each, schema(*item_schema(facts, kMaxFirstItems), schema_place(place, "items")));
    }
    if (!facts.contains.empty()) {
        if (fixed == 0 && facts.contains.size() == 1) return with_contained(facts, each, place);
        return schema_error(place, "keyword \"contains\" is not supported here");
    }
    if (is_nothing(each) && (max == kNoLimit || max > fixed)) max = fixed;
    if (max != kNoLimit && max < min) {
        return never(place +
                     (facts.items.max == max
                          ? fmt::format(": minItems {} is more than maxItems {}", min, max)
                          : fmt::format(": minItems {} is more than prefixItems has", min)));
    }
    // Built from the last item back: what may follow after i items, comma included.
    Expr rest;
    if (max == kNoLimit || max > fixed) {
        const std::int32_t least = std::max(min - fixed, 0);
        const std::int32_t most = max == kNoLimit ? kNoLimit : max - fixed;
        if (fixed == 0) {
            Expr more = repeat(item_after_comma(json_, each), std::max(least - 1, 0),
                               most == kNoLimit ? kNoLimit : most - 1);
            rest = sequence({std::move(each), std::move(more)});
            if (least == 0) rest = optional(std::move(rest));
        } else {
            rest = repeat(item_after_comma(json_, each), least, most);
        }
    }
    const std::int32_t used = max == kNoLimit ? fixed : std::min(fixed, max);
    for (std::int32_t i = used; i-- > 0;) {
        std::vector<Expr> both;
        both.push_back(std::move(first[static_cast<std::size_t>(i)]));
        both.push_back(std::move(rest));
        Expr from_here = sequence(std::move(both));
        if (i > 0) from_here = item_after_comma(json_, std::move(from_here));
        rest = i < min ? std::move(from_here) : optional(std::move(from_here));
    }
    return bracketed(json_, "[", std::move(rest), "]");
}

// Rules "after so many items, with or without one that is wanted".
base::Result<Expr> SchemaCompiler::with_contained(const Facts& facts, const Expr& item,
                                                  const std::string& place) {
    const SchemaJson* each = item_schema(facts, kMaxFirstItems);
    TRY(Expr wanted,
        schema(*reader_.all_of({each, facts.contains.front()}), schema_place(place, "contains")));
    if (is_nothing(wanted)) return nothing();
    const std::int32_t min = facts.items.min;
    const std::int32_t max = facts.items.max;
    const std::int32_t last = max == kNoLimit ? std::max(min, 1) : max;
    if (last > kMaxContaining) {
        return schema_error(place, fmt::format("\"contains\" beside a count above {} is not "
                                               "supported",
                                               kMaxContaining));
    }
    std::vector<RuleIndex> rules;  // by count, then whether there is one
    for (std::int32_t i = 0; i < 2 * (last + 1); ++i) rules.push_back(grammar_.add("array items"));
    const auto at = [&rules](std::int32_t count, bool found) {
        return rules[static_cast<std::size_t>(2 * count + (found ? 1 : 0))];
    };
    const auto with = [&](std::int32_t count, const Expr& one, bool found) {
        const std::int32_t next = std::min(count + 1, last);
        Expr both = sequence({one, rule(at(next, found))});
        return count == 0 ? both : item_after_comma(json_, std::move(both));
    };
    for (std::int32_t count = 0; count <= last; ++count) {
        for (const bool found : {false, true}) {
            std::vector<Expr> ways;
            if (found && count >= min) ways.emplace_back();
            if (max == kNoLimit || count < max) {
                if (!is_nothing(item)) ways.push_back(with(count, item, found));
                if (!found) ways.push_back(with(count, wanted, true));
            }
            grammar_.body(at(count, found)) = ways.empty() ? nothing() : choice(std::move(ways));
        }
    }
    return bracketed(json_, "[", rule(at(0, false)), "]");
}

// Rules "these items are written": one for each set, which is for few items.
base::Result<Expr> SchemaCompiler::without_repeats(const Facts& facts, const std::string& place) {
    Facts item;
    const SchemaJson* each = item_schema(facts, kMaxFirstItems);
    TRY_VOID(reader_.add(*each, schema_place(place, "items"), item));
    std::vector<SchemaJson> different;
    if (item.values) {
        for (const SchemaJson& value : *item.values) {
            const bool known =
                std::find(different.begin(), different.end(), value) != different.end();
            TRY(const bool good, all_hold(value, item, false));
            const bool noted = written_value(json_.notation(), value).has_value();
            if (good && noted && !known) different.push_back(value);
        }
    } else if ((item.written_types() & ~(kNullType | kBooleanType)) == 0 && item.choices.empty()) {
        for (const SchemaJson& value : {SchemaJson(false), SchemaJson(true), SchemaJson()}) {
            TRY(const bool good, all_hold(value, item, false));
            if (good) different.push_back(value);
        }
    }
    if (different.empty() || different.size() > kMaxDifferentItems) {
        return schema_error(place,
                            fmt::format("keyword \"uniqueItems\" is supported only where the "
                                        "items are an enum of at most {} values",
                                        kMaxDifferentItems));
    }
    const std::uint32_t sets = 1U << different.size();
    std::vector<RuleIndex> rules;
    for (std::uint32_t set = 0; set < sets; ++set) rules.push_back(grammar_.add("array items"));
    for (std::uint32_t set = 0; set < sets; ++set) {
        std::vector<Expr> ways;
        const std::int32_t count = __builtin_popcount(set);
        if (count >= facts.items.min) ways.emplace_back();
        const bool more = facts.items.max == kNoLimit || count < facts.items.max;
        for (std::size_t i = 0; more && i < different.size(); ++i) {
            if ((set >> i & 1U) != 0) continue;
            Expr with = sequence({literal(*written_value(json_.notation(), different[i])),
                                  rule(rules[set | 1U << i])});
            ways.push_back(set == 0 ? std::move(with) : item_after_comma(json_, std::move(with)));
        }
        grammar_.body(rules[set]) = ways.empty() ? nothing() : choice(std::move(ways));
    }
    return bracketed(json_, "[", rule(rules[0]), "]");
}

}  // namespace helix::text::grammar
