#include "text/grammar/tagged_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "text/grammar/dfa.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_words.h"

namespace helix::text::grammar {
namespace {

using TagJson = nlohmann::ordered_json;

constexpr std::uint64_t kMaxTagSteps = 4'000'000;
constexpr std::size_t kMaxTextStates = 20'000;
constexpr int kMaxReferences = 8;

// ---- values that are JSON

void drop_opening(CharSet& set) {
    set = subtract(set, {{U'<', U'<'}});
}

// Takes texts with a raw '<' out, with which a tag would begin. In JSON it stands in strings only,
// where it may be written in another way.
void drop_opening(Expr& e) {
    if (e.kind == Expr::Kind::chars) drop_opening(e.chars);
    if (e.kind == Expr::Kind::literal) {
        for (auto at = e.text.find('<'); at != std::string::npos; at = e.text.find('<', at)) {
            e.text.replace(at, 1, "\\u003c");
        }
    }
    if (e.kind == Expr::Kind::graph) {
        StateGraph copy = *e.graph;
        for (Expr& label : copy.labels) drop_opening(label);
        e = graph(std::move(copy));
    }
    for (Expr& item : e.items) drop_opening(item);
}

// ---- values that are texts

struct TextRule {
    Expr expr;
    bool wanted = true;
};

class ArgumentText {
  public:
    ArgumentText(const TagJson& root, const ArgumentTags& tags) : root_(root), tags_(tags) {}

    base::Result<Expr> of(const TagJson& schema, const std::string& name) {
        TRY(const TagJson* const found, follow(schema));
        TRY_VOID(read(*found, name));
        if (!fixed_.empty()) return choose();
        if (max_ != kNoLimit && max_ < min_) return not_in_call("maxLength below minLength");
        for (const std::string& mark : tags_.never) rules_.push_back({spelled(mark), false});
        if (!tags_.keeps_line_ends) {
            TRY(Expr ends, parse_pattern("^\\n|\\n$"));
            rules_.push_back({std::move(ends), false});
        }
        return all_rules(name);
    }

  private:
    base::Result<const TagJson*> follow(const TagJson& schema) const {
        SchemaReferences references(root_);
        const TagJson* at = &schema;
        for (int i = 0; i < kMaxReferences; ++i) {
            if (!at->is_object()) return not_in_call("a schema that is no object");
            const auto reference = at->find("$ref");
            if (reference == at->end()) return at;
            TRY(at, references.resolve(*reference));
        }
        return not_in_call("a $ref to a $ref");
    }

    base::Status read(const TagJson& schema, const std::string& name) {
        for (const auto& [key, value] : schema.items()) {
            if (is_schema_annotation(key) || (key == "type" && value == "string")) continue;
            if (key == "const" && value.is_string()) {
                fixed_.push_back(value.get<std::string>());
            } else if (key == "enum" && value.is_array()) {
                for (const TagJson& one : value) {
                    if (one.is_string()) fixed_.push_back(one.get<std::string>());
                }
            } else if (key == "pattern" && value.is_string()) {
                TRY(Expr pattern, parse_pattern(value.get_ref<const std::string&>()));
                rules_.push_back({std::move(pattern)});
            } else if (key == "format" && value.is_string()) {
                const std::string pattern = format_pattern(value.get_ref<const std::string&>());
                if (pattern.empty()) return not_in_call("format " + value.dump());
                TRY(Expr format, parse_pattern("^(?:" + pattern + ")$"));
                rules_.push_back({std::move(format)});
            } else if (key == "minLength" || key == "maxLength") {
                if (!value.is_number_unsigned() || value > kMaxRepeats) {
                    return not_in_call(fmt::format("{} of {}", key, name));
                }
                (key == "minLength" ? min_ : max_) = value.get<std::int32_t>();
            } else {
                return not_in_call(fmt::format("{} of {}", key, name));
            }
        }
        const bool more = !rules_.empty() || min_ > 0 || max_ != kNoLimit;
        if (!fixed_.empty() && more) return not_in_call("enum beside others of " + name);
        return base::Ok{};
    }

    base::Result<Expr> choose() const {
        std::vector<Expr> out;
        for (const std::string& text : fixed_) {
            const bool ends = std::ranges::any_of(tags_.never, [&](const std::string& mark) {
                return text.find(mark) != std::string::npos;
            });
            const bool lost =
                !tags_.keeps_line_ends && (text.starts_with('\n') || text.ends_with('\n'));
            if (!ends && !lost) out.push_back(literal(text));
        }
        if (out.empty()) return not_in_call("no value of an enum");
        return choice(std::move(out));
    }

    base::Result<Expr> all_rules(const std::string& name) const {
        StepBudget budget(kMaxTagSteps);
        std::vector<CharSet> used;
        for (const TextRule& rule : rules_) append_char_sets(rule.expr, used);
        const Alphabet alphabet(std::move(used), budget);
        std::optional<Dfa> all;
        for (const TextRule& rule : rules_) {
            auto dfa = Dfa::of(rule.expr, true, alphabet, budget);
            if (dfa && !rule.wanted) dfa = dfa->complement();
            if (dfa) dfa = all ? Dfa::both(*all, *dfa, budget) : dfa->smallest(budget);
            if (!dfa) return not_in_call("so much of " + name);
            all = std::move(dfa);
        }
        auto texts = to_state_graph(*all, alphabet, min_, max_, kMaxTextStates);
        const bool ends =
            texts && std::ranges::any_of(texts->states, [](const auto& s) { return s.accepts; });
        if (!ends) return not_in_call("the length or pattern of " + name);
        return graph(std::move(*texts));
    }

    const TagJson& root_;
    const ArgumentTags& tags_;
    std::vector<std::string> fixed_;
    std::vector<TextRule> rules_;
    std::int32_t min_ = 0;
    std::int32_t max_ = kNoLimit;
};

}  // namespace

base::Result<Expr> TaggedArguments::of(const TagJson& schema, const ArgumentTags& tags) {
    TRY(const std::vector<CallArgument> arguments, call_arguments(schema));
    std::vector<Expr> all;
    for (const CallArgument& each : arguments) {
        TRY(Expr argument, one(each, schema, tags));
        all.push_back(each.required ? std::move(argument) : optional(std::move(argument)));
    }
    return sequence(std::move(all));
}

base::Result<Expr> TaggedArguments::one(const CallArgument& argument, const TagJson& root,
                                        const ArgumentTags& tags) {
    const std::string& name = argument.name;
    const bool plain = !name.empty() && name.find_first_of("<>\"=\n\r\t ") == name.npos;
    if (!plain) return not_in_call("the name " + TagJson(name).dump());
    const bool text = std::ranges::find(tags.texts, name) != tags.texts.end();
    std::string open = text ? tags.text_open : tags.json_open;
    if (const auto at = open.find("{}"); at != open.npos) open.replace(at, 2, name);
    const std::string key = (text ? "text " : "json ") + key_of(argument, root);
    auto known = values_.find(key);
    if (known == values_.end()) {
        TRY(Grammar made, value(argument, root, tags, text));
        known = values_.emplace(key, append(grammar_, std::move(made))).first;
    }
    return sequence({literal(open), rule(known->second), literal(tags.close)});
}

base::Result<Grammar> TaggedArguments::value(const CallArgument& argument, const TagJson& root,
                                             const ArgumentTags& tags, bool text) {
    if (text) {
        Grammar made;
        TRY(Expr written, ArgumentText(root, tags).of(*argument.schema, argument.name));
        made.root = made.add("argument", std::move(written));
        return made;
    }
    TRY(Grammar made, schema_grammar(root, *argument.schema, argument.place(), Notation::json));
    for (Rule& each : made.rules) drop_opening(each.body);
    return made;
}

}  // namespace helix::text::grammar
