#include <algorithm>
#include <map>

#include "base/escape.h"
#include "text/template/access.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/string_format.h"
#include "text/template/string_ops.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

// One call of a string method.
struct MethodCall {
    const Text& text;
    std::string_view name;
    const Arguments& arguments;
    Budget& budget;

    const std::string& str() const { return text.str(); }
    Result<Value> give(std::string_view made) const {
        return make_text(std::string(made), budget, text.markup);
    }
    // Text given to a method of safe text is escaped first.
    std::string argument_text(const Text& given) const {
        return text.markup && !given.markup ? base::escaped_markup(given.str()) : given.str();
    }
};

using Method = Result<Value> (*)(const MethodCall&);

Result<Value> change_case(const MethodCall& call) {
    TRY_VOID(Bound::bind(call.name, "", 0, call.arguments));
    if (call.name == "upper") return call.give(to_upper(call.str()));
    if (call.name == "title") return call.give(title_case(call.str()));
    if (call.name == "capitalize") return call.give(capitalize(call.str()));
    if (call.name == "swapcase") return call.give(swap_case(call.str()));
    return call.give(to_lower(call.str()));  // lower, casefold
}

Result<Value> strip_ends(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "chars", 0, call.arguments));
    TRY(const std::string characters, bound.text_at(0, ""));
    const Side side = call.name == "lstrip"   ? Side::left
                      : call.name == "rstrip" ? Side::right
                                              : Side::both;
    const std::string_view view = characters;
    return call.give(strip(call.str(), side, bound.at(0).is<None>() ? nullptr : &view));
}

Result<Value> split_parts(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "sep maxsplit", 0, call.arguments));
    TRY(const std::string separator, bound.text_at(0, ""));
    TRY(const std::int64_t limit, bound.int_at(1, -1));
    const bool from_right = call.name == "rsplit";
    TRY_VOID(call.budget.charge_text(call.str().size()));
    std::vector<std::string_view> parts;
    if (bound.at(0).is<None>()) {
        parts = split_on_space(call.str(), limit, from_right);
    } else {
        if (separator.empty()) return base::invalid(std::string(call.name) + ": empty separator");
        parts = split_on(call.str(), separator, limit, from_right);
    }
    std::vector<Value> items;
    items.reserve(parts.size());
    for (const std::string_view part : parts)
        items.push_back(make_text(std::string(part), call.text.markup));
    return make_sequence(std::move(items), call.budget);
}

Result<Value> split_to_lines(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "keepends", 0, call.arguments));
    TRY_VOID(call.budget.charge_text(call.str().size()));
    std::vector<Value> items;
    for (const std::string_view line : split_lines(call.str(), bound.truth_at(0))) {
        items.push_back(make_text(std::string(line), call.text.markup));
    }
    return make_sequence(std::move(items), call.budget);
}

Result<Value> partition(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "sep", 1, call.arguments));
    TRY(const std::string separator, bound.text_at(0, ""));
    if (separator.empty()) return base::invalid(std::string(call.name) + ": empty separator");
    const bool last = call.name == "rpartition";
    const std::size_t at = last ? call.str().rfind(separator) : call.str().find(separator);
    std::vector<std::string> parts{call.str(), "", ""};
    if (at != std::string::npos) {
        parts = {call.str().substr(0, at), separator, call.str().substr(at + separator.size())};
    } else if (last) {
        parts = {"", "", call.str()};
    }
    std::vector<Value> items;
    for (std::string& part : parts) {
        TRY(Value item, call.give(part));
        items.push_back(std::move(item));
    }
    return make_sequence(std::move(items), call.budget, SequenceKind::tuple);
}

Result<Value> replace_all(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "old new count", 2, call.arguments));
    TRY_VOID(bound.text_at(0, ""));
    TRY_VOID(bound.text_at(1, ""));
    const Value& from = bound.at(0);
    const Value& to = bound.at(1);
    if (!from.is<Text>() || !to.is<Text>())
        return base::invalid("replace: both arguments must be strings");
    TRY(const std::int64_t count, bound.int_at(2, -1));
    TRY(const std::string replaced,
        replace_text(call.str(), call.argument_text(*from.get<Text>()),
                     call.argument_text(*to.get<Text>()), count, call.budget));
    return call.give(replaced);
}

// The part of the text between the optional arguments start and end, and where it begins.
struct Window {
    std::string_view text;
    std::int64_t start = 0;
    bool valid = true;  // start is not past the end
};

Result<Window> window_of(const MethodCall& call, const Bound& bound) {
    TRY_VOID(call.budget.charge(call.str().size() / 8));
    const auto size = static_cast<std::int64_t>(count_code_points(call.str()));
    TRY(std::int64_t start, bound.int_at(1, 0));
    TRY(std::int64_t end, bound.int_at(2, size));
    if (start < 0) start = std::max<std::int64_t>(0, start + size);
    if (end < 0) end = std::max<std::int64_t>(0, end + size);
    end = std::min(end, size);
    if (start > end) return Window{"", start, false};
    const std::size_t from = byte_offset(call.str(), static_cast<std::size_t>(start));
    const std::size_t to = byte_offset(call.str(), static_cast<std::size_t>(end));
    return Window{std::string_view(call.str()).substr(from, to - from), start, true};
}

Result<Value> test_ends(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "affix start end", 1, call.arguments));
    TRY(const Window window, window_of(call, bound));
    std::vector<Value> affixes{bound.at(0)};
    if (const auto* sequence = affixes[0].get<SequencePtr>()) {
        if ((*sequence)->kind == SequenceKind::tuple)
            affixes = std::vector<Value>((*sequence)->items);
    }
    for (const Value& affix : affixes) {
        const auto* text = affix.get<Text>();
        if (text == nullptr) {
            return base::invalid(std::string(call.name) +
                                 " needs a string or a tuple of strings, not '" + type_name(affix) +
                                 "'");
        }
        const bool fits = call.name == "startswith" ? window.text.starts_with(text->str())
                                                    : window.text.ends_with(text->str());
        if (window.valid && fits) return make_bool(true);
    }
    return make_bool(false);
}

Result<Value> find_part(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "sub start end", 1, call.arguments));
    const Value& wanted = bound.at(0);
    if (!wanted.is<Text>()) {
        return base::invalid(std::string(call.name) + " needs a string, not '" + type_name(wanted) +
                             "'");
    }
    const std::string& part = wanted.get<Text>()->str();
    TRY(const Window window, window_of(call, bound));
    if (call.name == "count") return make_int(window.valid ? count_parts(window.text, part) : 0);
    const bool last = call.name.starts_with('r');
    const std::size_t at = last ? window.text.rfind(part) : window.text.find(part);
    if (at == std::string_view::npos || !window.valid) {
        if (call.name.ends_with("index"))
            return base::invalid(std::string(call.name) + ": substring not found");
        return make_int(-1);
    }
    return make_int(window.start +
                    static_cast<std::int64_t>(count_code_points(window.text.substr(0, at))));
}

Result<Value> join_items(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "iterable", 1, call.arguments));
    TRY(const std::vector<Value> items, iterate(bound.at(0), call.budget));
    TextBuilder out(call.budget);
    bool first = true;
    for (const Value& item : items) {
        const auto* text = item.get<Text>();
        if (text == nullptr) {
            return base::invalid("join needs strings, found '" + type_name(item) + "'");
        }
        if (!first) TRY_VOID(out.append(call.str()));
        first = false;
        TRY_VOID(out.append(call.argument_text(*text)));
    }
    return call.give(out.take());
}

Result<Value> test_characters(const MethodCall& call) {
    TRY_VOID(Bound::bind(call.name, "", 0, call.arguments));
    TRY_VOID(call.budget.charge(call.str().size() / 8));
    return make_bool(has_characters(call.str(), call.name));
}

Result<Value> pad_text(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "width fillchar", 1, call.arguments));
    TRY(const std::int64_t width, bound.int_at(0, 0));
    TRY(const std::string fill, bound.text_at(1, " "));
    if (count_code_points(fill) != 1) {
        return base::invalid(std::string(call.name) +
                             ": the fill character must be one character long");
    }
    TRY(const std::string padded, pad(call.str(), width, fill, call.name, call.budget));
    return call.give(padded);
}

Result<Value> fill_zeros(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "width", 1, call.arguments));
    TRY(const std::int64_t width, bound.int_at(0, 0));
    const bool sign = !call.str().empty() && (call.str()[0] == '-' || call.str()[0] == '+');
    const std::string head = sign ? call.str().substr(0, 1) : "";
    TRY(const std::string padded,
        pad(call.str().substr(head.size()), width - (sign ? 1 : 0), "0", "rjust", call.budget));
    return call.give(head + padded);
}

Result<Value> remove_affix(const MethodCall& call) {
    TRY(const Bound bound, Bound::bind(call.name, "affix", 1, call.arguments));
    if (!bound.at(0).is<Text>()) return base::invalid(std::string(call.name) + " needs a string");
    TRY(const std::string affix, bound.text_at(0, ""));
    std::string_view text = call.str();
    if (call.name == "removeprefix" && text.starts_with(affix)) text.remove_prefix(affix.size());
    if (call.name == "removesuffix" && text.ends_with(affix)) text.remove_suffix(affix.size());
    return call.give(text);
}

Result<Value> format_text(const MethodCall& call) {
    return format_braces(call.text, call.arguments, call.budget);
}

const std::map<std::string_view, Method>& methods() {
    static const std::map<std::string_view, Method> table{
        {"upper", change_case},
        {"lower", change_case},
        {"title", change_case},
        {"capitalize", change_case},
        {"swapcase", change_case},
        {"casefold", change_case},
        {"strip", strip_ends},
        {"lstrip", strip_ends},
        {"rstrip", strip_ends},
        {"split", split_parts},
        {"rsplit", split_parts},
        {"splitlines", split_to_lines},
        {"partition", partition},
        {"rpartition", partition},
        {"replace", replace_all},
        {"startswith", test_ends},
        {"endswith", test_ends},
        {"find", find_part},
        {"rfind", find_part},
        {"index", find_part},
        {"rindex", find_part},
        {"count", find_part},
        {"join", join_items},
        {"isalpha", test_characters},
        {"isdigit", test_characters},
        {"isalnum", test_characters},
        {"isspace", test_characters},
        {"isupper", test_characters},
        {"islower", test_characters},
        {"isnumeric", test_characters},
        {"isdecimal", test_characters},
        {"isascii", test_characters},
        {"ljust", pad_text},
        {"rjust", pad_text},
        {"center", pad_text},
        {"zfill", fill_zeros},
        {"removeprefix", remove_affix},
        {"removesuffix", remove_affix},
        {"format", format_text},
    };
    return table;
}

}  // namespace

bool is_string_method(std::string_view name) {
    return methods().contains(name);
}

Result<Value> call_string_method(const Text& receiver, std::string_view name,
                                 const Arguments& arguments, Budget& budget) {
    const auto found = methods().find(name);
    if (found == methods().end())
        return base::invalid("a string has no method '" + std::string(name) + "'");
    TRY_VOID(budget.charge_text(receiver.str().size()));
    return found->second({receiver, name, arguments, budget});
}

}  // namespace helix::text::jinja
