#include "text/grammar/notation.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace helix::text::grammar {
namespace {

using NotedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kGemmaMarks = {"<|\"|>", "<tool_call|>",
                                                         "<end_function_call>"};
constexpr std::array<std::string_view, 3> kFunctionGemmaMarks = {"<escape>", "<tool_call|>",
                                                                 "<end_function_call>"};

std::optional<std::string> written_string(Notation notation, const std::string& text) {
    if (!has_raw_strings(notation)) return NotedJson(text).dump();
    const bool ends = std::ranges::any_of(never_in_strings(notation), [&](std::string_view mark) {
        return text.find(mark) != std::string::npos;
    });
    if (ends) return std::nullopt;
    const std::string quote(quote_of(notation));
    return quote + text + quote;
}

std::string written_word(Notation notation, const NotedJson& value) {
    if (notation != Notation::python || value.is_number()) return value.dump();
    if (value.is_null()) return "None";
    return value.get<bool>() ? "True" : "False";
}

}  // namespace

bool has_raw_strings(Notation notation) {
    return notation == Notation::gemma || notation == Notation::function_gemma;
}

std::string_view quote_of(Notation notation) {
    return has_raw_strings(notation) ? never_in_strings(notation).front() : "\"";
}

std::span<const std::string_view> never_in_strings(Notation notation) {
    if (notation == Notation::gemma) return kGemmaMarks;
    if (notation == Notation::function_gemma) return kFunctionGemmaMarks;
    return {};
}

std::optional<std::string> written_value(Notation notation, const NotedJson& value) {
    if (value.is_string()) return written_string(notation, value.get_ref<const std::string&>());
    if (!value.is_structured()) return written_word(notation, value);
    const bool object = value.is_object();
    std::string out = object ? "{" : "[";
    for (const auto& [key, item] : value.items()) {
        if (out.size() > 1) out += ',';
        if (object) {
            const auto name = written_name(notation, key);
            if (!name) return std::nullopt;
            out += *name + ':';
        }
        const auto written = written_value(notation, item);
        if (!written) return std::nullopt;
        out += *written;
    }
    return out + (object ? '}' : ']');
}

bool is_plain_name(std::string_view name) {
    constexpr std::string_view kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    return !name.empty() && name.find_first_not_of(kPlain) == std::string_view::npos;
}

std::optional<std::string> written_name(Notation notation, const std::string& name) {
    if (has_raw_strings(notation) && is_plain_name(name)) return name;
    return written_string(notation, name);
}

}  // namespace helix::text::grammar
