#include "text/template/repr.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

class ReprWriter {
  public:
    explicit ReprWriter(Budget& budget) : budget_(budget), out_(budget) {}

    std::string take() { return out_.take(); }

    Status write(const Value& value, int depth) {
        TRY_VOID(budget_.charge(1));
        if (depth > 2 * budget_.limits().nesting) {
            return base::Error{base::Errc::too_large, "the value to print is nested too deeply"};
        }
        if (const auto* text = value.get<Text>()) {
            TRY_VOID(out_.append(text->markup ? "Markup(" : ""));
            TRY_VOID(out_.append(quoted_text(text->str())));
            return out_.append(text->markup ? ")" : "");
        }
        if (const auto* sequence = value.get<SequencePtr>())
            return write_sequence(**sequence, depth);
        if (const auto* dict = value.get<DictPtr>()) return write_dict(**dict, depth);
        if (const auto* names = value.get<NamespacePtr>()) {
            TRY_VOID(out_.append("<Namespace "));
            TRY_VOID(write_dict((*names)->attributes, depth));
            return out_.append(">");
        }
        return out_.append(simple(value));
    }

  private:
    static std::string simple(const Value& value) {
        if (value.is<Undefined>()) return "Undefined";
        if (value.is<None>()) return "None";
        if (const auto* truth = value.get<bool>()) return *truth ? "True" : "False";
        if (const auto* number = value.get<std::int64_t>()) return std::to_string(*number);
        if (const auto* number = value.get<double>()) return float_repr(*number);
        if (const auto* loop = value.get<LoopPtr>()) {
            return "<LoopContext " + std::to_string((*loop)->index0 + 1) + "/" +
                   std::to_string((*loop)->items->size()) + ">";
        }
        const Callable& callable = **value.get<CallablePtr>();
        if (callable.kind == Callable::Kind::macro)
            return "<Macro " + quoted_text(callable.name) + ">";
        return "<built-in method " + callable.name + ">";
    }

    Status write_sequence(const Sequence& sequence, int depth) {
        if (!sequence.label.empty()) return out_.append(sequence.label);
        if (sequence.kind == SequenceKind::range) return write_range(sequence.range);
        static constexpr std::array<std::array<const char*, 2>, 8> kBrackets{
            {{"[", "]"},
             {"(", ")"},
             {"(", ")"},
             {"range(", ")"},
             {"dict_keys([", "])"},
             {"dict_values([", "])"},
             {"dict_items([", "])"},
             {"<generator ", ">"}}};
        const auto& brackets = kBrackets[static_cast<std::size_t>(sequence.kind)];
        TRY_VOID(out_.append(brackets[0]));
        for (std::size_t i = 0; i < sequence.items.size(); ++i) {
            if (i > 0) TRY_VOID(out_.append(", "));
            TRY_VOID(write(sequence.items[i], depth + 1));
        }
        const bool tuple =
            sequence.kind == SequenceKind::tuple || sequence.kind == SequenceKind::group;
        if (tuple && sequence.items.size() == 1) TRY_VOID(out_.append(","));
        return out_.append(brackets[1]);
    }

    Status write_range(const std::array<std::int64_t, 3>& range) {
        const auto [start, stop, step] = range;
        TRY_VOID(out_.append("range(" + std::to_string(start) + ", " + std::to_string(stop)));
        if (step != 1) TRY_VOID(out_.append(", " + std::to_string(step)));
        return out_.append(")");
    }

    Status write_dict(const Dict& dict, int depth) {
        TRY_VOID(out_.append("{"));
        bool first = true;
        for (const auto& entry : dict.entries()) {
            if (!first) TRY_VOID(out_.append(", "));
            first = false;
            TRY_VOID(write(entry.key, depth + 1));
            TRY_VOID(out_.append(": "));
            TRY_VOID(write(entry.value, depth + 1));
        }
        return out_.append("}");
    }

    Budget& budget_;
    TextBuilder out_;
};

void append_escaped(std::string& out, std::int32_t code_point) {
    std::array<char, 16> buffer{};
    const auto code = static_cast<unsigned>(code_point);
    const int size = code < 0x100 ? std::snprintf(buffer.data(), buffer.size(), "\\x%02x", code)
                     : code < 0x10000
                         ? std::snprintf(buffer.data(), buffer.size(), "\\u%04x", code)
                         : std::snprintf(buffer.data(), buffer.size(), "\\U%08x", code);
    out.append(buffer.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<std::string> to_text(const Value& value, Budget& budget) {
    if (const auto* text = value.get<Text>()) return text->str();
    if (value.is<Undefined>()) return std::string();
    return to_repr(value, budget);
}

Result<std::string> to_repr(const Value& value, Budget& budget) {
    ReprWriter writer(budget);
    TRY_VOID(writer.write(value, 0));
    return writer.take();
}

std::string float_repr(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    std::array<char, 64> buffer{};
    const double size = std::abs(number);
    const bool scientific = size != 0.0 && (size < 1e-4 || size >= 1e16);
    const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
    char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format).ptr;
    std::string digits(buffer.data(), end);
    if (!scientific && digits.find('.') == std::string::npos) digits += ".0";
    return digits;
}

std::string quoted_text(std::string_view text) {
    const bool single =
        text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
    const char quote = single ? '\'' : '"';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        std::size_t bytes = 0;
        const std::int32_t c = code_point_at(text, at, bytes);
        if (c == quote || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (is_printable(c)) {
            out += text.substr(at, bytes);
        } else {
            append_escaped(out, c < 0 ? static_cast<unsigned char>(text[at]) : c);
        }
        at += bytes;
    }
    return out + quote;
}

}  // namespace helix::text::jinja
