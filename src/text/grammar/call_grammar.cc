#include "text/grammar/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/grammar/json_schema.h"
#include "text/grammar/marked_text.h"
#include "text/grammar/python_arguments.h"
#include "text/grammar/tagged_arguments.h"

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

// {"of": "0-9a-z", "min": 1, "max": 4}
std::optional<Expr> id_of(const CallJson& object) {
    const auto ranges = text_of(object, "of");
    const auto min = count_of(object, "min");
    const auto max = count_of(object, "max");
    if (!ranges || ranges->empty() || !min || !max || *min > *max) return std::nullopt;
    return repeat(one_of(*ranges), *min, *max);
}

std::optional<Expr> any_of_texts(const CallJson& list) {
    std::vector<Expr> ways;
    for (const CallJson& text : list) {
        if (!text.is_string()) return std::nullopt;
        ways.push_back(literal(text.get<std::string>()));
    }
    if (ways.empty()) return std::nullopt;
    return choice(std::move(ways));
}

// What comes before the arguments: a text, or several and what is between them.
std::optional<Expr> head_of(const CallJson& call) {
    const auto head = call.is_object() ? call.find("before") : call.end();
    if (!call.is_object() || head == call.end()) return std::nullopt;
    if (head->is_string()) return literal(head->get<std::string>());
    if (!head->is_array()) return std::nullopt;
    std::vector<Expr> parts;
    for (const CallJson& part : *head) {
        auto expr = part.is_string()   ? literal(part.get<std::string>())
                    : part.is_array()  ? any_of_texts(part)
                    : part.is_object() ? id_of(part)
                                       : std::nullopt;
        if (!expr) return std::nullopt;
        parts.push_back(std::move(*expr));
    }
    return sequence(std::move(parts));
}

std::vector<std::string> texts_of(const CallJson& object, const char* key) {
    std::vector<std::string> texts;
    const auto at = object.find(key);
    if (at == object.end()) return texts;
    for (const CallJson& text : *at) {
        if (text.is_string()) texts.push_back(text.get<std::string>());
    }
    return texts;
}

// A text or several; nothing if it is neither, or one is empty.
std::optional<std::vector<std::string>> triggers_of(const CallJson& form) {
    const auto at = form.find("trigger");
    if (at == form.end()) return std::vector<std::string>();
    std::vector<std::string> texts =
        at->is_string() ? std::vector{at->get<std::string>()} : texts_of(form, "trigger");
    const bool some = !texts.empty() && std::ranges::none_of(texts, &std::string::empty);
    return some ? std::optional(std::move(texts)) : std::nullopt;
}

base::Result<ArgumentTags> tags_of(const CallJson& tags) {
    if (!tags.is_object()) return wrong_calls("an object as tags");
    ArgumentTags read;
    read.text_open = text_of(tags, "text").value_or("");
    read.json_open = text_of(tags, "json").value_or("");
    read.close = text_of(tags, "close").value_or("");
    if (read.text_open.empty() || read.json_open.empty() || read.close.empty()) {
        return wrong_calls("text, json and close of tags");
    }
    read.never = texts_of(tags, "never");
    read.texts = texts_of(tags, "texts");
    read.keeps_line_ends = tags.value("keeps_line_ends", CallJson(true)) == true;
    return read;
}

// What writes the arguments of all calls of a form.
struct ArgumentWriters {
    explicit ArgumentWriters(Grammar& made) : grammar(made), tagged(made), python(made) {}
    Grammar& grammar;
    TaggedArguments tagged;
    PythonArguments python;
};

base::Result<Expr> arguments_of(ArgumentWriters& writers, const CallJson& call) {
    const CallJson& schema = call["schema"];
    if (call.contains("tags")) {
        TRY(const ArgumentTags tags, tags_of(call["tags"]));
        return writers.tagged.of(schema, tags);
    }
    const std::string name = text_of(call, "notation").value_or("?");
    if (name == "python") return writers.python.of(schema);
    Notation notation = Notation::json;
    if (name == "gemma") {
        notation = Notation::gemma;
    } else if (name == "function_gemma") {
        notation = Notation::function_gemma;
    } else if (!name.empty()) {
        return wrong_calls("a notation that is python, gemma or function_gemma");
    }
    TRY(Grammar values, schema_grammar(schema, schema, "#", notation));
    return rule(append(writers.grammar, std::move(values)));
}

base::Result<Expr> one_call(ArgumentWriters& writers, const CallJson& call) {
    auto before = head_of(call);
    const auto after = call.is_object() ? text_of(call, "after") : std::nullopt;
    if (!before || !after || !call.contains("schema")) {
        return wrong_calls("before, schema and after of each call");
    }
    TRY(Expr arguments, arguments_of(writers, call));
    return sequence({std::move(*before), std::move(arguments), literal(*after)});
}

// Calls where they may come, or none.
Expr behind_any_text(const CallJson& form, const std::vector<std::string>& triggers, Expr calls) {
    const std::vector<std::string> headers = texts_of(form, "headers_begin");
    if (!headers.empty()) {
        const std::string end = text_of(form, "headers_end").value_or("");
        const Expr header = text_up_to({&end, 1}, triggers);
        std::vector<std::string> in_header = triggers;
        in_header.push_back(end);
        return sequence({repeat(sequence({header, text_up_to(headers, {})}), 0),
                         choice({sequence({text_without(in_header), optional(std::move(calls))}),
                                 sequence({header, text_without(headers)})})});
    }
    const bool first = form.value("trigger_first", CallJson(false)) == true;
    if (!first) return sequence({text_without(triggers), optional(std::move(calls))});
    const std::string again = text_of(form, "again").value_or("");
    if (again.empty()) return choice({std::move(calls), text_without({}, triggers)});
    std::vector<std::string> later;
    for (const std::string& trigger : triggers) later.push_back(again + trigger);
    return choice({calls, sequence({text_without(later, triggers),
                                    optional(sequence({literal(again), calls}))})});
}

}  // namespace

base::Result<CallForm> call_grammar(std::string_view text) {
    const CallJson form = CallJson::parse(text, nullptr, false);
    if (!form.is_object()) return wrong_calls("a JSON object");
    const auto begin = text_of(form, "begin");
    const auto between = text_of(form, "between");
    const auto end = text_of(form, "end");
    const auto triggers = triggers_of(form);
    const auto min = count_of(form, "min");
    const auto max = count_of(form, "max");
    const auto calls = form.find("calls");
    if (!begin || !between || !end || !triggers) {
        return wrong_calls("texts as begin, between, end and trigger");
    }
    if (!min || !max || *min == 0 || (*max != 0 && *max < *min)) {
        return wrong_calls(fmt::format("1 <= min <= max <= {}, or max 0 for no limit", kMostCalls));
    }
    if (calls == form.end() || !calls->is_array() || calls->empty()) {
        return wrong_calls("at least one of calls");
    }
    Grammar grammar;
    const RuleIndex root = grammar.add("root");
    ArgumentWriters writers(grammar);
    std::vector<Expr> any;
    for (const CallJson& call : *calls) {
        TRY(Expr one, one_call(writers, call));
        any.push_back(std::move(one));
    }
    const RuleIndex call = grammar.add("call", choice(std::move(any)));
    Expr more = repeat(sequence({literal(*between), rule(call)}), *min - 1,
                       *max == 0 ? kNoLimit : *max - 1);
    Expr calls_of_all = sequence({literal(*begin), rule(call), std::move(more), literal(*end)});
    if (!triggers->empty()) {
        calls_of_all =
            behind_any_text(form, *triggers, rule(grammar.add("calls", std::move(calls_of_all))));
    }
    grammar.body(root) = std::move(calls_of_all);
    grammar.root = root;
    return CallForm{std::move(grammar), texts_of(form, "markers"), !triggers->empty()};
}

}  // namespace helix::text::grammar
