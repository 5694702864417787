#include "text/grammar/call_grammar.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/grammar/json_schema.h"

namespace helix::text::grammar {
namespace {

using CallJson = nlohmann::ordered_json;

constexpr std::int64_t kMostCalls = 1000;

base::Error wrong_calls(std::string_view what) {
    return base::invalid(fmt::format("a grammar of tool calls needs {}", what));
}

// A text of the object, "" if it is missing; nothing if it is no string.
std::optional<std::string> text_of(const CallJson& object, const char* key) {
    const auto at = object.find(key);
    if (at == object.end()) return "";
    if (!at->is_string()) return std::nullopt;
    return at->get<std::string>();
}

std::optional<std::int32_t> count_of(const CallJson& object, const char* key) {
    const auto at = object.find(key);
    if (at == object.end() || !at->is_number_integer()) return std::nullopt;
    const auto count = at->get<std::int64_t>();
    if (count < 0 || count > kMostCalls) return std::nullopt;
    return static_cast<std::int32_t>(count);
}

void move_rules(Expr& e, RuleIndex by) {
    if (e.kind == Expr::Kind::rule) e.rule += by;
    for (Expr& item : e.items) move_rules(item, by);
}

// Adds the rules of another grammar; returns its root.
RuleIndex append(Grammar& grammar, Grammar other) {
    const auto by = static_cast<RuleIndex>(grammar.rules.size());
    for (Rule& added : other.rules) {
        move_rules(added.body, by);
        grammar.rules.push_back(std::move(added));
    }
    return other.root + by;
}

base::Result<Expr> one_call(Grammar& grammar, const CallJson& call) {
    const auto before = call.is_object() ? text_of(call, "before") : std::nullopt;
    const auto after = call.is_object() ? text_of(call, "after") : std::nullopt;
    if (!before || !after || !call.contains("schema")) {
        return wrong_calls("before, schema and after of each call");
    }
    TRY(Grammar arguments, json_schema_grammar(call["schema"]));
    return sequence(
        {literal(*before), rule(append(grammar, std::move(arguments))), literal(*after)});
}

}  // namespace

base::Result<Grammar> call_grammar(std::string_view text) {
    const CallJson form = CallJson::parse(text, nullptr, false);
    if (!form.is_object()) return wrong_calls("a JSON object");
    const auto begin = text_of(form, "begin");
    const auto between = text_of(form, "between");
    const auto end = text_of(form, "end");
    const auto min = count_of(form, "min");
    const auto max = count_of(form, "max");
    const auto calls = form.find("calls");
    if (!begin || !between || !end) return wrong_calls("texts as begin, between and end");
    if (!min || !max || *min == 0 || (*max != 0 && *max < *min)) {
        return wrong_calls(fmt::format("1 <= min <= max <= {}, or max 0 for no limit", kMostCalls));
    }
    if (calls == form.end() || !calls->is_array() || calls->empty()) {
        return wrong_calls("at least one of calls");
    }
    Grammar grammar;
    const RuleIndex root = grammar.add("root");
    std::vector<Expr> any;
    for (const CallJson& call : *calls) {
        TRY(Expr one, one_call(grammar, call));
        any.push_back(std::move(one));
    }
    const RuleIndex call = grammar.add("call", choice(std::move(any)));
    Expr more = repeat(sequence({literal(*between), rule(call)}), *min - 1,
                       *max == 0 ? kNoLimit : *max - 1);
    grammar.body(root) = sequence({literal(*begin), rule(call), std::move(more), literal(*end)});
    grammar.root = root;
    return grammar;
}

std::vector<std::string> markers_of_calls(std::string_view text) {
    const CallJson form = CallJson::parse(text, nullptr, false);
    std::vector<std::string> markers;
    if (!form.is_object() || !form.contains("markers")) return markers;
    for (const CallJson& marker : form["markers"]) {
        if (marker.is_string()) markers.push_back(marker.get<std::string>());
    }
    return markers;
}

}  // namespace helix::text::grammar
