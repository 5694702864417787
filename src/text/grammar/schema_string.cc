// Strings of a schema.

#include <fmt/format.h>

#include <algorithm>

#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

constexpr std::size_t kMaxGraphStates = 20'000;
// A text that must match and be counted is drawn up to at least this length.
constexpr std::int32_t kLeastLength = 256;

// What the states of a dfa read whose every text is any number of characters of one set.
std::optional<CharSet> one_set(const Dfa& dfa, const Alphabet& alphabet) {
    if (dfa.size() != 2 || !dfa.accepts(dfa.start())) return {};
    std::vector<std::uint32_t> classes;
    for (std::uint32_t c = 1; c < dfa.classes(); ++c) {
        if (dfa.next(dfa.start(), c) == dfa.start()) classes.push_back(c);
    }
    return alphabet.characters(classes);
}

// The length of the longest text; nothing when there is no longest.
std::optional<std::uint32_t> longest(const Dfa& dfa) {
    enum class Mark : std::uint8_t { fresh, open, done };
    std::vector<Mark> marks(dfa.size(), Mark::fresh);
    std::vector<std::uint32_t> length(dfa.size());
    std::vector<std::pair<Dfa::State, std::uint32_t>> path{{dfa.start(), 1}};
    while (!path.empty()) {
        auto& [at, next_class] = path.back();
        marks[at] = Mark::open;
        if (next_class == dfa.classes()) {
            marks[at] = Mark::done;
            const Dfa::State done = at;
            path.pop_back();
            if (!path.empty()) {
                std::uint32_t& above = length[path.back().first];
                above = std::max(above, length[done] + 1);
            }
            continue;
        }
        const Dfa::State to = dfa.next(at, next_class++);
        if (to == Dfa::kDead) continue;
        if (marks[to] == Mark::open) return {};
        if (marks[to] == Mark::fresh) {
            path.emplace_back(to, 1);
        } else {
            length[at] = std::max(length[at], length[to] + 1);
        }
    }
    return length[dfa.start()];
}

}  // namespace

base::Error SchemaCompiler::too_costly(const std::string& place) const {
    return schema_error(place,
                        "the patterns, formats and lengths that must hold together are too costly; "
                        "use fewer or simpler ones");
}

base::Result<std::vector<SchemaCompiler::TextSet>> SchemaCompiler::text_sets(
    const Facts& facts, const std::string& place) {
    std::vector<TextSet> out;
    const auto add_pattern = [&](const std::string& pattern, bool wanted) -> base::Status {
        const std::string here = schema_place(place, "pattern");
        TRY_VOID(reader_.charge(16 + pattern.size(), here));
        auto parsed = parse_pattern(pattern);
        if (!parsed.ok()) return schema_error(here, parsed.error().message);
        out.push_back({std::move(*parsed), true, wanted});
        return base::Ok{};
    };
    for (const std::string& pattern : facts.strings.patterns) TRY_VOID(add_pattern(pattern, true));
    for (const std::string& pattern : facts.strings.no_patterns) {
        TRY_VOID(add_pattern(pattern, false));
    }
    for (const std::string& format : facts.strings.formats) {
        const std::string pattern = format_pattern(format);
        if (pattern.empty()) {
            return schema_error(schema_place(place, "format"),
                                fmt::format("format \"{}\" cannot be kept", format));
        }
        TRY_VOID(reader_.charge(16, place));
        TRY(Expr parsed, parse_pattern("^(?:" + pattern + ")$"));
        out.push_back({std::move(parsed), true, true});
    }
    for (const SchemaJson& value : facts.excluded) {
        if (!value.is_string()) continue;
        out.push_back({spelled(value.get_ref<const std::string&>()), false, false});
    }
    return out;
}

base::Result<Dfa> SchemaCompiler::dfa_of(const std::vector<TextSet>& sets, const Alphabet& alphabet,
                                         const std::string& place) {
    std::optional<Dfa> out;
    for (const TextSet& set : sets) {
        auto dfa = Dfa::of(set.expr, set.search, alphabet, budget_);
        if (!dfa) return too_costly(place);
        if (!set.wanted) dfa = dfa->complement();
        out = out ? Dfa::both(*out, *dfa, budget_) : dfa->smallest(budget_);
        if (!out) return too_costly(place);
    }
    CHECK(out.has_value());
    return std::move(*out);
}

// The texts of a dfa with so many characters, as they are written between quotes.
base::Result<Expr> SchemaCompiler::text_of(const Dfa& dfa, const Alphabet& alphabet,
                                           Facts::Counts length, const std::string& place) {
    if (dfa.empty()) return never(place + ": no text satisfies all of these");
    const std::uint32_t shortest = dfa.shortest_ends()[dfa.start()];
    const auto most = longest(dfa);
    std::int32_t min = length.min;
    std::int32_t max = length.max;
    if (shortest >= static_cast<std::uint32_t>(min)) min = 0;
    if (most && max != kNoLimit && *most <= static_cast<std::uint32_t>(max)) max = kNoLimit;
    if (max != kNoLimit && shortest > static_cast<std::uint32_t>(max)) {
        return never(place + ": no text that matches is so short");
    }
    if (most && *most < static_cast<std::uint32_t>(min)) {
        return never(place + ": no text that matches is so long");
    }
    const auto set = one_set(dfa, alphabet);
    if (set) return json_.inside_string(repeat(chars(*set), min, max));
    auto graph = to_state_graph(dfa, alphabet, min, max, kMaxGraphStates);
    while (!graph && max != kNoLimit && max / 2 >= std::max(min, kLeastLength)) {
        max /= 2;
        graph = to_state_graph(dfa, alphabet, min, max, kMaxGraphStates);
    }
    if (!graph || !budget_.spend(graph->states.size())) return too_costly(place);
    const bool ends = std::any_of(graph->states.begin(), graph->states.end(),
                                  [](const StateGraph::State& state) { return state.accepts; });
    if (!ends) return never(place + ": no text that matches has such a length");
    return json_.inside_string(grammar::graph(std::move(*graph)));
}

base::Result<Expr> SchemaCompiler::string(const Facts& facts, const std::string& place) {
    const Facts::Counts& length = facts.length;
    if (length.max != kNoLimit && length.max < length.min) {
        return never(place + fmt::format(": minLength {} is more than maxLength {}", length.min,
                                         length.max));
    }
    std::string key = fmt::format("string {} {}", length.min, length.max);
    for (const auto* list :
         {&facts.strings.patterns, &facts.strings.no_patterns, &facts.strings.formats}) {
        key += SchemaJson(*list).dump();
    }
    key += SchemaJson(facts.excluded).dump();
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    TRY(std::vector<TextSet> sets, text_sets(facts, place));
    const bool counted = length.min > 0 || length.max != kNoLimit;
    if (sets.empty() && !counted) return json_.string();
    for (const std::string_view mark : never_in_strings(json_.notation())) {
        sets.push_back({spelled(mark), true, false});
    }
    Expr inside;
    if (sets.empty()) {
        inside = repeat(json_.character(), length.min, length.max);
    } else {
        const bool simple = sets.size() == 1 && sets[0].wanted && sets[0].search && !counted;
        // Where the pattern has no anchor any character may stand, also in other spellings.
        auto whole = simple ? with_whole_text(inside_json_string(sets[0].expr), json_.character())
                            : std::optional<Expr>();
        if (whole) {
            inside = std::move(*whole);
        } else {
            std::vector<CharSet> used;
            for (const TextSet& set : sets) append_char_sets(set.expr, used);
            const Alphabet alphabet(std::move(used), budget_);
            if (budget_.spent()) return too_costly(place);
            TRY(const Dfa dfa, dfa_of(sets, alphabet, place));
            TRY(inside, text_of(dfa, alphabet, length, place));
        }
    }
    Expr made = is_nothing(inside) ? nothing() : shared(json_.quoted(std::move(inside)), "text");
    made_.emplace(key, made);
    return made;
}

}  // namespace helix::text::grammar
