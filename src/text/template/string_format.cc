#include "text/template/string_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/escape.h"
#include "text/template/access.h"
#include "text/template/operators.h"
#include "text/template/repr.h"
#include "text/template/string_ops.h"
#include "text/template/text_builder.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

constexpr std::int64_t kMaxPrecision = 300;

// How one place is to be written: all that % and {} can say.
struct FormatSpec {
    std::string fill = " ";
    char align = 0;  // < > ^ =, 0: by type
    char sign = '-';
    bool alternate = false;
    bool comma = false;
    std::int64_t width = 0;
    std::int64_t precision = -1;
    char type = 0;
};

std::int64_t read_number(std::string_view text, std::size_t& at, std::int64_t absent) {
    std::int64_t number = absent;
    const auto result = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (result.ec != std::errc()) return absent;
    at = static_cast<std::size_t>(result.ptr - text.data());
    return number;
}

std::string with_commas(std::string digits) {
    const std::size_t end = std::min(digits.find_first_of(".e"), digits.size());
    for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
    return digits;
}

Result<std::string> float_digits(double number, char type, const FormatSpec& spec) {
    if (spec.precision > kMaxPrecision) return base::invalid("format: precision too large");
    if (std::isnan(number)) return std::string("nan");
    if (std::isinf(number)) return std::string("inf");
    const std::array<char, 6> format{'%', '.', '*', type, 0, 0};
    std::array<char, 700> buffer{};
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    const int size =
        std::snprintf(buffer.data(), buffer.size(), format.data(), precision, std::abs(number));
    return std::string(buffer.data(), static_cast<std::size_t>(size));
}

std::string integer_digits(std::uint64_t magnitude, char type) {
    std::array<char, 66> buffer{};
    const int radix = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, radix).ptr;
    std::string digits(buffer.data(), end);
    return type == 'X' ? to_upper(digits) : digits;
}

std::string radix_prefix(char type) {
    if (type == 'x') return "0x";
    if (type == 'X') return "0X";
    if (type == 'o') return "0o";
    if (type == 'b') return "0b";
    return "";
}

Result<std::string> place(const FormatSpec& spec, const std::string& sign, const std::string& body,
                          bool number, Budget& budget) {
    const char align = spec.align != 0 ? spec.align : number ? '>' : '<';
    if (align == '=') {
        const auto rest = spec.width - static_cast<std::int64_t>(sign.size());
        TRY(const std::string padded, pad(body, rest, spec.fill, "rjust", budget));
        return sign + padded;
    }
    const std::string whole = sign + body;
    if (align == '^') {
        const auto size = static_cast<std::int64_t>(count_code_points(whole));
        const std::int64_t missing = std::max<std::int64_t>(0, spec.width - size);
        TextBuilder out(budget);
        TRY_VOID(out.append_repeated(spec.fill, static_cast<std::size_t>(missing / 2)));
        TRY_VOID(out.append(whole));
        TRY_VOID(out.append_repeated(spec.fill, static_cast<std::size_t>(missing - missing / 2)));
        return out.take();
    }
    return pad(whole, spec.width, spec.fill, align == '>' ? "rjust" : "ljust", budget);
}

std::string sign_text(bool negative, char sign) {
    if (negative) return "-";
    return sign == '-' ? "" : std::string(1, sign);
}

Result<std::string> write_integer(std::int64_t number, const FormatSpec& spec, Budget& budget) {
    const bool negative = number < 0;
    const auto bits = static_cast<std::uint64_t>(number);
    std::string digits = integer_digits(negative ? 0 - bits : bits, spec.type);
    if (spec.precision > kMaxPrecision) return base::invalid("format: precision too large");
    if (spec.precision > static_cast<std::int64_t>(digits.size())) {
        digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
    }
    if (spec.comma) digits = with_commas(digits);
    std::string head = sign_text(negative, spec.sign);
    if (spec.alternate) head += radix_prefix(spec.type);
    return place(spec, head, digits, true, budget);
}

Result<std::string> write_float(double number, const FormatSpec& spec, Budget& budget) {
    const bool percent = spec.type == '%';
    TRY(std::string digits,
        float_digits(percent ? number * 100 : number, percent ? 'f' : spec.type, spec));
    if (percent) digits += "%";
    if (spec.comma) digits = with_commas(digits);
    return place(spec, sign_text(std::signbit(number) && !std::isnan(number), spec.sign), digits,
                 true, budget);
}

Result<std::string> write_text(std::string text, const FormatSpec& spec, Budget& budget) {
    if (spec.precision >= 0)
        text.resize(byte_offset(text, static_cast<std::size_t>(spec.precision)));
    return place(spec, "", text, false, budget);
}

Result<double> float_of(const Value& value) {
    if (const auto* number = value.get<double>()) return *number;
    std::int64_t storage = 0;
    if (const auto* number = as_int(value, storage)) return static_cast<double>(*number);
    if (auto error = undefined_error(value)) return *error;
    return base::invalid("format: a number is needed, not '" + type_name(value) + "'");
}

Result<std::int64_t> integer_of(const Value& value, bool from_float) {
    std::int64_t storage = 0;
    if (const auto* number = as_int(value, storage)) return *number;
    const auto* real = value.get<double>();
    if (real != nullptr && from_float && std::abs(*real) < 9e18)
        return static_cast<std::int64_t>(*real);
    return base::invalid("format: an integer is needed, not '" + type_name(value) + "'");
}

// ---- text % arguments
// -------------------------------------------------------------------------------

class PercentFormatter {
  public:
    PercentFormatter(const Text& text, const Value& arguments, Budget& budget)
        : text_(text.str()),
          markup_(text.markup),
          arguments_(arguments),
          budget_(budget),
          out_(budget) {
        const auto* sequence = arguments.get<SequencePtr>();
        if (sequence != nullptr && (*sequence)->kind == SequenceKind::tuple) {
            items_ = (*sequence)->items;
        } else {
            items_.push_back(arguments);
            single_ = arguments.is<DictPtr>() || sequence != nullptr || arguments.is<Undefined>();
        }
    }

    Result<Value> run() {
        while (at_ < text_.size()) {
            const std::size_t next = std::min(text_.find('%', at_), text_.size());
            TRY_VOID(out_.append(text_.substr(at_, next - at_)));
            at_ = next;
            if (at_ < text_.size()) TRY_VOID(write_place());
        }
        // A mapping need not be used up, as in Python.
        const bool leftover =
            used_ < items_.size() && !(single_ && used_ == 0 && !arguments_.is<Undefined>());
        if (leftover) return base::invalid("not all arguments converted during string formatting");
        return make_text(out_.take(), budget_, markup_);
    }

  private:
    Result<Value> next_value() {
        if (used_ >= items_.size()) return base::invalid("not enough arguments for format string");
        return items_[used_++];
    }

    Result<Value> named_value() {
        const std::size_t end = text_.find(')', at_);
        if (end == std::string_view::npos) return base::invalid("incomplete format key");
        const std::string name(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        const auto* dict = arguments_.get<DictPtr>();
        if (dict == nullptr) return base::invalid("format requires a mapping");
        const Value* found = (*dict)->find_text(name);
        if (found == nullptr) return base::invalid("format: no value named '" + name + "'");
        single_ = true;
        return *found;
    }

    void read_flags(FormatSpec& spec) {
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '-') {
                spec.align = '<';
            } else if (c == '0') {
                if (spec.align == 0) spec.align = '=';
            } else if (c == '+' || c == ' ') {
                if (spec.sign != '+') spec.sign = c;
            } else if (c == '#') {
                spec.alternate = true;
            } else {
                break;
            }
        }
    }

    Status write_place() {
        ++at_;
        Value value;
        bool have_value = false;
        if (at_ < text_.size() && text_[at_] == '(') {
            TRY(value, named_value());
            have_value = true;
        }
        FormatSpec spec;
        read_flags(spec);
        spec.width = read_number(text_, at_, 0);
        if (at_ < text_.size() && text_[at_] == '.') {
            ++at_;
            spec.precision = read_number(text_, at_, 0);
        }
        if (at_ >= text_.size()) return base::invalid("incomplete format");
        spec.type = text_[at_++];
        if (spec.type == '%') return out_.append("%");
        if (!have_value) {
            TRY(value, next_value());
        }
        TRY(const std::string written, write_value(value, spec));
        return out_.append(written);
    }

    Result<std::string> write_value(const Value& value, FormatSpec spec) {
        if (spec.align == 0) spec.align = '>';
        switch (spec.type) {
            case 's':
            case 'r':
            case 'a': {
                if (spec.align == '=') spec.align = '>';
                TRY(std::string shown,
                    spec.type == 's' ? to_text(value, budget_) : to_repr(value, budget_));
                const auto* text = value.get<Text>();
                if (markup_ && !(text != nullptr && text->markup))
                    shown = base::escaped_markup(shown);
                return write_text(std::move(shown), spec, budget_);
            }
            case 'd':
            case 'i':
            case 'u':
            case 'x':
            case 'X':
            case 'o': {
                const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
                TRY(const std::int64_t number, integer_of(value, decimal));
                if (spec.align == '=') spec.fill = "0";
                return write_integer(number, spec, budget_);
            }
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G': {
                TRY(const double number, float_of(value));
                if (spec.align == '=') spec.fill = "0";
                return write_float(number, spec, budget_);
            }
            default:
                return base::invalid(std::string("unsupported format character '") + spec.type +
                                     "'");
        }
    }

    std::string_view text_;
    bool markup_;
    const Value& arguments_;
    Budget& budget_;
    TextBuilder out_;
    std::vector<Value> items_;
    bool single_ = false;  // an unused value is no error
    std::size_t used_ = 0;
    std::size_t at_ = 0;
};

// ---- text.format(...)
// -------------------------------------------------------------------------------

Result<FormatSpec> parse_spec(std::string_view text) {
    FormatSpec spec;
    std::size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const std::size_t first = text.empty() ? 0 : code_point_bytes(text, 0);
    if (first < text.size() && is_align(text[first])) {
        spec.fill = text.substr(0, first);
        spec.align = text[first];
        at = first + 1;
    } else if (!text.empty() && is_align(text[0])) {
        spec.align = text[at++];
    }
    const auto take = [&](char c) {
        return at < text.size() && text[at] == c ? (++at, true) : false;
    };
    for (const char sign : {'+', ' ', '-'}) {
        if (take(sign)) {
            spec.sign = sign;
            break;
        }
    }
    spec.alternate = take('#');
    if (take('0') && spec.align == 0) {
        spec.align = '=';
        spec.fill = "0";
    }
    spec.width = read_number(text, at, 0);
    spec.comma = take(',');
    if (take('.')) {
        const std::size_t digits = at;
        spec.precision = read_number(text, at, 0);
        if (at == digits) return base::invalid("format: precision is missing after '.'");
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size())
        return base::invalid("invalid format specification '" + std::string(text) + "'");
    return spec;
}

Result<std::string> format_value(const Value& value, std::string_view spec_text, Budget& budget) {
    if (spec_text.empty()) return to_text(value, budget);
    TRY(FormatSpec spec, parse_spec(spec_text));
    const std::string_view float_types = "eEfFgG%";
    const bool is_float_type =
        spec.type != 0 && float_types.find(spec.type) != std::string_view::npos;
    std::int64_t storage = 0;
    const auto* integer = as_int(value, storage);
    if (integer != nullptr && !is_float_type) {
        if (spec.precision >= 0)
            return base::invalid("format: precision is not allowed for integers");
        const std::string_view types = "dxXob";
        if (spec.type != 0 && types.find(spec.type) == std::string_view::npos) {
            return base::invalid(std::string("format: unknown code '") + spec.type +
                                 "' for an integer");
        }
        return write_integer(*integer, spec, budget);
    }
    if (integer != nullptr || value.is<double>()) {
        TRY(const double number, float_of(value));
        if (is_float_type) return write_float(number, spec, budget);
        if (spec.type != 0)
            return base::invalid(std::string("format: unknown code '") + spec.type +
                                 "' for a float");
        if (spec.precision >= 0) {
            spec.type = 'g';
            return write_float(number, spec, budget);
        }
        return place(spec, sign_text(std::signbit(number), spec.sign), float_repr(std::abs(number)),
                     true, budget);
    }
    if (!value.is<Text>())
        return base::invalid("format: no specification is supported for '" + type_name(value) +
                             "'");
    if (spec.type != 0 && spec.type != 's') {
        return base::invalid(std::string("format: unknown code '") + spec.type + "' for a string");
    }
    if (spec.align == '=') return base::invalid("format: '=' alignment is not allowed for strings");
    return write_text(value.get<Text>()->str(), spec, budget);
}

class BraceFormatter {
  public:
    BraceFormatter(const Text& text, const Arguments& arguments, Budget& budget)
        : text_(text.str()),
          markup_(text.markup),
          arguments_(arguments),
          budget_(budget),
          out_(budget) {}

    Result<Value> run() {
        while (at_ < text_.size()) {
            const std::size_t next = std::min(text_.find_first_of("{}", at_), text_.size());
            TRY_VOID(out_.append(text_.substr(at_, next - at_)));
            at_ = next;
            if (at_ >= text_.size()) break;
            const char brace = text_[at_];
            if (at_ + 1 < text_.size() && text_[at_ + 1] == brace) {
                TRY_VOID(out_.append(text_.substr(at_, 1)));
                at_ += 2;
            } else if (brace == '}') {
                return base::invalid("single '}' in a format string");
            } else {
                TRY_VOID(write_place());
            }
        }
        return make_text(out_.take(), budget_, markup_);
    }

  private:
    Result<Value> base_value(std::string_view name) {
        if (name.empty() || (name[0] >= '0' && name[0] <= '9')) {
            std::size_t at = 0;
            const auto index = static_cast<std::size_t>(
                name.empty() ? static_cast<std::int64_t>(automatic_++) : read_number(name, at, 0));
            if (index >= arguments_.positional.size()) {
                return base::invalid("format: there is no argument " + std::to_string(index));
            }
            return arguments_.positional[index];
        }
        const Value* found = arguments_.find(name);
        if (found == nullptr)
            return base::invalid("format: there is no argument named '" + std::string(name) + "'");
        return *found;
    }

    Result<Value> field_value(std::string_view field) {
        std::size_t at = std::min(field.find_first_of(".["), field.size());
        TRY(Value value, base_value(field.substr(0, at)));
        while (at < field.size()) {
            const bool attribute = field[at] == '.';
            const std::size_t end = std::min(
                attribute ? field.find_first_of(".[", at + 1) : field.find(']', at), field.size());
            const std::string_view part = field.substr(at + 1, end - at - 1);
            if (attribute) {
                TRY(value, get_attribute(value, part, budget_));
            } else {
                std::size_t digits = 0;
                const std::int64_t number = read_number(part, digits, 0);
                const bool index = !part.empty() && digits == part.size();
                TRY(value, get_item(value, index ? make_int(number) : make_text(std::string(part)),
                                    budget_));
            }
            at = end + (attribute ? 0 : 1);
        }
        return value;
    }

    Status write_place() {
        const std::size_t end = text_.find('}', at_);
        if (end == std::string_view::npos) return base::invalid("single '{' in a format string");
        std::string_view field = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        if (field.find('{') != std::string_view::npos)
            return base::invalid("format: nested places are not supported");
        const std::size_t colon = std::min(field.find(':'), field.size());
        const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
        field = field.substr(0, colon);
        const std::size_t bang = std::min(field.find('!'), field.size());
        const std::string_view conversion = field.substr(bang);
        TRY(Value value, field_value(field.substr(0, bang)));
        if (conversion == "!r") {
            TRY(std::string shown, to_repr(value, budget_));
            value = make_text(std::move(shown));
        } else if (conversion == "!s") {
            TRY(std::string shown, to_text(value, budget_));
            value = make_text(std::move(shown));
        } else if (!conversion.empty()) {
            return base::invalid("format: unknown conversion '" + std::string(conversion) + "'");
        }
        TRY(std::string written, format_value(value, spec, budget_));
        const auto* text = value.get<Text>();
        if (markup_ && !(text != nullptr && text->markup)) written = base::escaped_markup(written);
        return out_.append(written);
    }

    std::string_view text_;
    bool markup_;
    const Arguments& arguments_;
    Budget& budget_;
    TextBuilder out_;
    std::size_t automatic_ = 0;
    std::size_t at_ = 0;
};

}  // namespace

Result<Value> format_percent(const Text& text, const Value& arguments, Budget& budget) {
    return PercentFormatter(text, arguments, budget).run();
}

Result<Value> format_braces(const Text& text, const Arguments& arguments, Budget& budget) {
    return BraceFormatter(text, arguments, budget).run();
}

}  // namespace helix::text::jinja
