#include <algorithm>
#include <set>

#include "base/escape.h"
#include "text/template/access.h"
#include "text/template/filters.h"
#include "text/template/json.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/string_format.h"
#include "text/template/string_ops.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

// The value as text for a filter on text: text stays as it is, all else is printed.
Result<std::string> soft_text(const FilterCall& call) {
    TRY(std::string text, to_text(call.value, call.budget));
    TRY_VOID(call.budget.charge_text(text.size()));
    return text;
}

Result<Value> change_case(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(const std::string text, soft_text(call));
    if (call.name == "upper") return call.text(to_upper(text), call.markup());
    if (call.name == "lower") return call.text(to_lower(text), call.markup());
    return call.text(capitalize(text), call.markup());
}

// Words begin after white space and - ( { [ <.
Result<Value> title(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(const std::string text, soft_text(call));
    const auto separates = [](std::int32_t c) {
        return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    };
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        std::size_t bytes = 0;
        const bool separator = separates(code_point_at(text, at, bytes));
        while (end < text.size() && separates(code_point_at(text, end, bytes)) == separator)
            end += bytes;
        const std::size_t first = code_point_bytes(text, at);
        out += to_upper(std::string_view(text).substr(at, first));
        out += to_lower(std::string_view(text).substr(at + first, end - at - first));
        at = end;
    }
    return call.text(std::move(out));
}

Result<Value> trim(const FilterCall& call) {
    TRY(const Bound bound, call.bind("chars"));
    TRY(const std::string text, soft_text(call));
    TRY(const std::string characters, bound.text_at(0, ""));
    const std::string_view view = characters;
    return call.text(std::string(strip(text, Side::both, bound.at(0).is<None>() ? nullptr : &view)),
                     call.markup());
}

Result<Value> replace(const FilterCall& call) {
    TRY(const Bound bound, call.bind("old new count", 2));
    TRY(const std::string text, soft_text(call));
    TRY(const std::string from, to_text(bound.at(0), call.budget));
    TRY(const std::string to, to_text(bound.at(1), call.budget));
    TRY(const std::int64_t count, bound.int_at(2, -1));
    TRY(std::string replaced, replace_text(text, from, to, count, call.budget));
    return call.text(std::move(replaced));
}

Result<Value> indent(const FilterCall& call) {
    TRY(const Bound bound, call.bind("width first blank"));
    if (auto error = undefined_error(call.value)) return *error;
    if (!call.value.is<Text>())
        return base::invalid("indent needs a string, not '" + type_name(call.value) + "'");
    TextBuilder margin(call.budget);
    if (const auto* text = bound.at(0).get<Text>()) {
        TRY_VOID(margin.append(text->str()));
    } else {
        TRY(const std::int64_t width, bound.int_at(0, 4));
        TRY_VOID(margin.append_repeated(
            " ", static_cast<std::size_t>(std::max<std::int64_t>(width, 0))));
    }
    const std::string source = call.value.get<Text>()->str() + "\n";
    TextBuilder out(call.budget);
    bool first = true;
    for (const std::string_view line : split_lines(source, false)) {
        if (!first) TRY_VOID(out.append("\n"));
        const bool wanted = first ? bound.truth_at(1) : !line.empty() || bound.truth_at(2);
        if (wanted) TRY_VOID(out.append(margin.text()));
        TRY_VOID(out.append(line));
        first = false;
    }
    return call.text(out.take(), call.markup());
}

Result<Value> escape(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(std::string text, soft_text(call));
    if (call.markup() && call.name != "forceescape") return call.value;
    return call.text(base::escaped_markup(text), true);
}

Result<Value> mark_safe(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(std::string text, soft_text(call));
    return call.text(std::move(text), true);
}

Result<Value> string(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    if (call.value.is<Text>()) return call.value;
    TRY(std::string text, soft_text(call));
    return call.text(std::move(text));
}

Result<Value> format(const FilterCall& call) {
    if (!call.arguments.positional.empty() && !call.arguments.named.empty()) {
        return base::invalid("format takes positional or named arguments, not both");
    }
    TRY(std::string text, soft_text(call));
    const Text format_text{std::make_shared<const std::string>(std::move(text)), call.markup()};
    if (call.arguments.named.empty()) {
        TRY(const Value items,
            make_sequence(call.arguments.positional, call.budget, SequenceKind::tuple));
        return format_percent(format_text, items, call.budget);
    }
    Dict dict;
    for (const auto& [name, value] : call.arguments.named) dict.set_text(name, value);
    TRY(const Value named, make_dict(std::move(dict), call.budget));
    return format_percent(format_text, named, call.budget);
}

Result<Value> center(const FilterCall& call) {
    TRY(const Bound bound, call.bind("width"));
    TRY(const std::string text, soft_text(call));
    TRY(const std::int64_t width, bound.int_at(0, 80));
    TRY(std::string padded, pad(text, width, " ", "center", call.budget));
    return call.text(std::move(padded), call.markup());
}

Result<Value> truncate(const FilterCall& call) {
    TRY(const Bound bound, call.bind("length killwords end leeway"));
    if (!call.value.is<Text>())
        return base::invalid("truncate needs a string, not '" + type_name(call.value) + "'");
    const std::string& text = call.value.get<Text>()->str();
    TRY(const std::int64_t length, bound.int_at(0, 255));
    TRY(const std::string end, bound.text_at(2, "..."));
    TRY(const std::int64_t leeway, bound.int_at(3, 5));
    const auto end_length = static_cast<std::int64_t>(count_code_points(end));
    if (length < end_length || leeway < 0) {
        return base::invalid("truncate: expected length >= " + std::to_string(end_length) +
                             " and leeway >= 0");
    }
    if (static_cast<std::int64_t>(count_code_points(text)) - leeway <= length) return call.value;
    std::string cut =
        text.substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
    if (!bound.truth_at(1)) cut = cut.substr(0, cut.rfind(' '));
    return call.text(cut + end);
}

Result<Value> count_words(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    TRY(const std::string text, soft_text(call));
    std::int64_t words = 0;
    bool inside = false;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const bool word = is_word(code_point_at(text, at, bytes));
        if (word && !inside) ++words;
        inside = word;
        at += bytes;
    }
    return make_int(words);
}

Result<Value> url_encode(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    if (call.value.is<DictPtr>() || call.value.is<SequencePtr>()) {
        return base::invalid("urlencode is supported for strings only");
    }
    TRY(const std::string text, soft_text(call));
    static constexpr std::string_view kSafe = "_.-~/";
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain || kSafe.find(c) != std::string_view::npos) {
            out += c;
        } else {
            const auto byte = static_cast<unsigned char>(c);
            out += '%';
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
        }
    }
    return call.text(std::move(out));
}

Status read_separators(const Value& separators, JsonStyle& style, Budget& budget) {
    TRY(const std::vector<Value> pair, iterate(separators, budget));
    if (pair.size() != 2 || !pair[0].is<Text>() || !pair[1].is<Text>()) {
        return base::invalid("tojson: separators must be two strings");
    }
    style.item_separator = pair[0].get<Text>()->str();
    style.key_separator = pair[1].get<Text>()->str();
    return base::Ok{};
}

// The signature of transformers' tojson: (value, ensure_ascii, indent, separators, sort_keys).
Result<Value> to_json_text(const FilterCall& call) {
    TRY(const Bound bound, call.bind("ensure_ascii indent separators sort_keys"));
    JsonStyle style;
    style.ensure_ascii = bound.truth_at(0);
    style.sort_keys = bound.truth_at(3);
    const Value& indent = bound.at(1);
    style.pretty = !indent.is<None>();
    if (const auto* text = indent.get<Text>()) {
        style.indent = text->str();
    } else {
        TRY(const std::int64_t width, bound.int_at(1, 0));
        if (width > 1000) return base::invalid("tojson: indent must be at most 1000");
        style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    if (style.pretty) style.item_separator = ",";
    if (!bound.at(2).is<None>()) TRY_VOID(read_separators(bound.at(2), style, call.budget));
    TRY(std::string json, to_json(call.value, style, call.budget));
    return call.text(std::move(json));
}

}  // namespace

const FilterTable& text_filters() {
    static const FilterTable table{
        {"upper", change_case},
        {"lower", change_case},
        {"capitalize", change_case},
        {"title", title},
        {"trim", trim},
        {"replace", replace},
        {"indent", indent},
        {"escape", escape},
        {"e", escape},
        {"forceescape", escape},
        {"safe", mark_safe},
        {"string", string},
        {"format", format},
        {"center", center},
        {"truncate", truncate},
        {"wordcount", count_words},
        {"urlencode", url_encode},
        {"tojson", to_json_text},
    };
    return table;
}

}  // namespace helix::text::jinja
