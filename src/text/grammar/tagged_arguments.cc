#include "text/grammar/tagged_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "text/grammar/dfa.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/pattern_parser.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

using TagJson = nlohmann::ordered_json;

constexpr std::uint64_t kMaxTagSteps = 4'000'000;
constexpr std::size_t kMaxTextStates = 20'000;
constexpr int kMaxReferences = 8;
constexpr std::string_view kDefinitions[] = {"$defs", "definitions"};
constexpr std::array<std::string_view, 7> kAnnotations = {
    "title", "description", "default", "examples", "$schema", "$id", "$comment"};

base::Error not_in_tags(std::string_view what) {
    return base::invalid(fmt::format("{} cannot be kept in a call with tags", what));
}

bool is_annotation(std::string_view key) {
    return std::ranges::find(kAnnotations, key) != kAnnotations.end();
}

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
        if (max_ != kNoLimit && max_ < min_) return not_in_tags("maxLength below minLength");
        for (const std::string& mark : tags_.never) rules_.push_back({spelled(mark), false});
        if (!tags_.keeps_line_ends) {
            TRY(Expr ends, parse_pattern("^\\n|\\n$"));
            rules_.push_back({std::move(ends), false});
        }
        return all_rules(name);
    }

  private:
    static Expr spelled(std::string_view text) {
        std::vector<Expr> out;
        for (const char32_t code : code_points(text)) out.push_back(chars({{code, code}}));
        return sequence(std::move(out));
    }

    base::Result<const TagJson*> follow(const TagJson& schema) const {
        const TagJson* at = &schema;
        for (int i = 0; i < kMaxReferences; ++i) {
            if (!at->is_object()) return not_in_tags("a schema that is no object");
            const auto reference = at->find("$ref");
            if (reference == at->end()) return at;
            const std::string path = reference->is_string() ? reference->get<std::string>() : "";
            if (!path.starts_with("#/")) return not_in_tags("this $ref");
            const TagJson* next = &root_;
            std::string_view rest = std::string_view(path).substr(1);
            while (next != nullptr && !rest.empty()) {
                rest.remove_prefix(1);
                const std::string key(rest.substr(0, rest.find('/')));
                rest.remove_prefix(key.size());
                const auto found = next->is_object() ? next->find(key) : next->end();
                next = next->is_object() && found != next->end() ? &*found : nullptr;
            }
            if (next == nullptr) return not_in_tags("this $ref");
            at = next;
        }
        return not_in_tags("a $ref to a $ref");
    }

    base::Status read(const TagJson& schema, const std::string& name) {
        for (const auto& [key, value] : schema.items()) {
            if (is_annotation(key) || (key == "type" && value == "string")) continue;
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
                if (pattern.empty()) return not_in_tags("format " + value.dump());
                TRY(Expr format, parse_pattern("^(?:" + pattern + ")$"));
                rules_.push_back({std::move(format)});
            } else if (key == "minLength" || key == "maxLength") {
                if (!value.is_number_unsigned() || value > kMaxRepeats) {
                    return not_in_tags(fmt::format("{} of {}", key, name));
                }
                (key == "minLength" ? min_ : max_) = value.get<std::int32_t>();
            } else {
                return not_in_tags(fmt::format("{} of {}", key, name));
            }
        }
        const bool more = !rules_.empty() || min_ > 0 || max_ != kNoLimit;
        if (!fixed_.empty() && more) return not_in_tags("enum beside others of " + name);
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
        if (out.empty()) return not_in_tags("no value of an enum");
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
            if (!dfa) return not_in_tags("so much of " + name);
            all = std::move(dfa);
        }
        auto texts = to_state_graph(*all, alphabet, min_, max_, kMaxTextStates);
        const bool ends =
            texts && std::ranges::any_of(texts->states, [](const auto& s) { return s.accepts; });
        if (!ends) return not_in_tags("the length or pattern of " + name);
        return graph(std::move(*texts));
    }

    const TagJson& root_;
    const ArgumentTags& tags_;
    std::vector<std::string> fixed_;
    std::vector<TextRule> rules_;
    std::int32_t min_ = 0;
    std::int32_t max_ = kNoLimit;
};

// ---- the object

base::Status check_object(const TagJson& schema) {
    if (!schema.is_object()) return not_in_tags("a schema that is no object");
    for (const auto& [key, value] : schema.items()) {
        const bool known = is_annotation(key) || key == "additionalProperties" ||
                           std::ranges::find(kDefinitions, key) != std::end(kDefinitions);
        if (known || (key == "type" && value == "object")) continue;
        if (key == "properties" && value.is_object()) continue;
        if (key == "required" && value.is_array()) continue;
        return not_in_tags(key);
    }
    const auto required = schema.find("required");
    if (required == schema.end()) return base::Ok{};
    const auto properties = schema.find("properties");
    for (const TagJson& name : *required) {
        const bool listed = name.is_string() && properties != schema.end() &&
                            properties->contains(name.get_ref<const std::string&>());
        if (!listed) return not_in_tags("a required property without a schema");
    }
    return base::Ok{};
}

bool is_required(const TagJson& schema, const std::string& name) {
    const auto required = schema.find("required");
    return required != schema.end() &&
           std::ranges::find(*required, TagJson(name)) != required->end();
}

// The schema with the definitions that it may refer to.
TagJson with_definitions(const TagJson& schema, const TagJson& root) {
    TagJson whole = schema;
    for (const std::string_view key : kDefinitions) {
        const auto found = root.find(key);
        if (found != root.end() && whole.is_object()) whole[std::string(key)] = *found;
    }
    return whole;
}

}  // namespace

base::Result<Expr> TaggedArguments::of(const TagJson& schema, const ArgumentTags& tags) {
    TRY_VOID(check_object(schema));
    std::vector<Expr> all;
    const auto properties = schema.find("properties");
    if (properties == schema.end()) return sequence({});
    for (const auto& [name, property] : properties->items()) {
        TRY(Expr argument, one(name, property, schema, tags));
        all.push_back(is_required(schema, name) ? std::move(argument)
                                                : optional(std::move(argument)));
    }
    return sequence(std::move(all));
}

base::Result<Expr> TaggedArguments::one(const std::string& name, const TagJson& schema,
                                        const TagJson& root, const ArgumentTags& tags) {
    const bool plain = !name.empty() && name.find_first_of("<>\"=\n\r\t ") == name.npos;
    if (!plain) return not_in_tags("the name " + TagJson(name).dump());
    const bool text = std::ranges::find(tags.texts, name) != tags.texts.end();
    std::string open = text ? tags.text_open : tags.json_open;
    if (const auto at = open.find("{}"); at != open.npos) open.replace(at, 2, name);
    const std::string key = (text ? "text " : "json ") + with_definitions(schema, root).dump();
    auto known = values_.find(key);
    if (known == values_.end()) {
        TRY(Grammar made, value(schema, root, tags, text, name));
        known = values_.emplace(key, append(grammar_, std::move(made))).first;
    }
    return sequence({literal(open), rule(known->second), literal(tags.close)});
}

base::Result<Grammar> TaggedArguments::value(const TagJson& schema, const TagJson& root,
                                             const ArgumentTags& tags, bool text,
                                             const std::string& name) {
    if (text) {
        Grammar made;
        TRY(Expr written, ArgumentText(root, tags).of(schema, name));
        made.root = made.add("argument", std::move(written));
        return made;
    }
    TRY(Grammar made, json_schema_grammar(with_definitions(schema, root)));
    for (Rule& each : made.rules) drop_opening(each.body);
    return made;
}

}  // namespace helix::text::grammar
