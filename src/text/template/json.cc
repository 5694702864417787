#include "text/template/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

Result<Value> read(const nlohmann::ordered_json& json, Budget& budget, int depth) {
    using Kind = nlohmann::ordered_json::value_t;
    if (depth > budget.limits().nesting) {
        return base::Error{base::Errc::too_large, "the messages nest values more than " +
                                                      std::to_string(budget.limits().nesting) +
                                                      " deep"};
    }
    switch (json.type()) {
        case Kind::boolean:
            return make_bool(json.get<bool>());
        case Kind::number_integer:
            return make_int(json.get<std::int64_t>());
        case Kind::number_unsigned: {
            const auto number = json.get<std::uint64_t>();
            if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                return base::invalid("the number " + std::to_string(number) + " is too large");
            }
            return make_int(static_cast<std::int64_t>(number));
        }
        case Kind::number_float:
            return Value(json.get<double>());
        case Kind::string:
            return make_text(json.get_ref<const std::string&>(), budget);
        case Kind::array: {
            std::vector<Value> items;
            items.reserve(json.size());
            for (const auto& element : json) {
                TRY(Value item, read(element, budget, depth + 1));
                items.push_back(std::move(item));
            }
            return make_sequence(std::move(items), budget);
        }
        case Kind::object: {
            Dict dict;
            for (const auto& [key, element] : json.items()) {
                TRY_VOID(budget.charge_text(key.size()));
                TRY(Value item, read(element, budget, depth + 1));
                dict.set_text(key, std::move(item));
            }
            return make_dict(std::move(dict), budget);
        }
        case Kind::null:
            return Value();
        default:
            return base::invalid("binary JSON values are not supported in a template's context");
    }
}

std::string json_float(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_repr(number);
}

void append_unicode_escape(std::string& out, std::int32_t code_unit) {
    std::array<char, 8> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x",
                  static_cast<unsigned>(code_unit) & 0xFFFFu);
    out += buffer.data();
}

std::string json_string(std::string_view text, bool ensure_ascii) {
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const std::int32_t c = code_point_at(text, at, bytes);
        static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
        static constexpr std::string_view kLetters = "\"\\nrtbf";
        const std::size_t special =
            c >= 0 && c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
        if (special != std::string_view::npos) {
            out += '\\';
            out += kLetters[special];
        } else if (c >= 0 && c < 0x20) {
            append_unicode_escape(out, c);
        } else if (ensure_ascii && c >= 0x10000) {
            append_unicode_escape(out, 0xD800 + ((c - 0x10000) >> 10));
            append_unicode_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
        } else if (ensure_ascii && c > 0x7F) {
            append_unicode_escape(out, c);
        } else {
            out += text.substr(at, bytes);
        }
        at += bytes;
    }
    return out + "\"";
}

class JsonWriter {
  public:
    JsonWriter(const JsonStyle& style, Budget& budget)
        : style_(style), budget_(budget), out_(budget) {}

    std::string take() { return out_.take(); }

    Status write(const Value& value, int depth) {
        TRY_VOID(budget_.charge(1));
        if (value.is<None>()) return out_.append("null");
        if (const auto* truth = value.get<bool>()) return out_.append(*truth ? "true" : "false");
        if (const auto* number = value.get<std::int64_t>())
            return out_.append(std::to_string(*number));
        if (const auto* number = value.get<double>()) return out_.append(json_float(*number));
        if (const auto* text = value.get<Text>())
            return out_.append(json_string(text->str(), style_.ensure_ascii));
        if (const auto* dict = value.get<DictPtr>()) return write_dict(**dict, depth);
        if (const auto* sequence = value.get<SequencePtr>()) {
            const SequenceKind kind = (*sequence)->kind;
            if (kind == SequenceKind::list || kind == SequenceKind::tuple ||
                kind == SequenceKind::group) {
                return write_list((*sequence)->items, depth);
            }
        }
        return base::invalid("Object of type " + type_name(value) + " is not JSON serializable");
    }

  private:
    Status new_line(int depth) {
        if (!style_.pretty) return base::Ok{};
        TRY_VOID(out_.append("\n"));
        return out_.append_repeated(style_.indent, static_cast<std::size_t>(depth));
    }

    Status write_list(const std::vector<Value>& items, int depth) {
        if (items.empty()) return out_.append("[]");
        TRY_VOID(out_.append("["));
        bool first = true;
        for (const Value& item : items) {
            if (!first) TRY_VOID(out_.append(style_.item_separator));
            first = false;
            TRY_VOID(new_line(depth + 1));
            TRY_VOID(write(item, depth + 1));
        }
        TRY_VOID(new_line(depth));
        return out_.append("]");
    }

    static Result<std::string> key_text(const Value& key) {
        if (const auto* text = key.get<Text>()) return text->str();
        if (key.is<None>()) return std::string("null");
        if (const auto* truth = key.get<bool>()) return std::string(*truth ? "true" : "false");
        if (const auto* number = key.get<std::int64_t>()) return std::to_string(*number);
        if (const auto* number = key.get<double>()) return json_float(*number);
        return base::invalid("JSON keys must be str, int, float, bool or None, not " +
                             type_name(key));
    }

    Status write_dict(const Dict& dict, int depth) {
        if (dict.size() == 0) return out_.append("{}");
        std::vector<Dict::Entry> entries = dict.entries();
        TRY_VOID(budget_.charge(entries.size()));  // they are copied
        if (style_.sort_keys) TRY_VOID(sort_entries(entries));
        TRY_VOID(out_.append("{"));
        bool first = true;
        for (const auto& entry : entries) {
            if (!first) TRY_VOID(out_.append(style_.item_separator));
            first = false;
            TRY_VOID(new_line(depth + 1));
            TRY(const std::string key, key_text(entry.key));
            TRY_VOID(out_.append(json_string(key, style_.ensure_ascii)));
            TRY_VOID(out_.append(style_.key_separator));
            TRY_VOID(write(entry.value, depth + 1));
        }
        TRY_VOID(new_line(depth));
        return out_.append("}");
    }

    Status sort_entries(std::vector<Dict::Entry>& entries) {
        std::optional<base::Error> failed;
        std::stable_sort(entries.begin(), entries.end(),
                         [&](const Dict::Entry& a, const Dict::Entry& b) {
                             if (failed) return false;
                             const auto below = less(a.key, b.key, budget_);
                             if (!below.ok()) failed = below.error();
                             return below.ok() && *below;
                         });
        if (failed) return *failed;
        return base::Ok{};
    }

    const JsonStyle& style_;
    Budget& budget_;
    TextBuilder out_;
};

}  // namespace

Result<Value> from_json(const nlohmann::ordered_json& json, Budget& budget) {
    return read(json, budget, 0);
}

Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget) {
    JsonWriter writer(style, budget);
    TRY_VOID(writer.write(value, 0));
    return writer.take();
}

}  // namespace helix::text::jinja
