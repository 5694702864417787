#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "text/template/filters.h"
#include "text/template/operators.h"
#include "text/template/unicode.h"

namespace helix::text::jinja {

namespace {

// Drops single underscores between digits, as Python does in int("1_000").
bool drop_underscores(std::string& digits) {
    if (digits.starts_with('_') || digits.ends_with('_') || digits.find("__") != std::string::npos)
        return false;
    std::erase(digits, '_');
    return true;
}

// Python's int(text, radix); none if it is no number.
Result<std::optional<std::int64_t>> parse_integer(std::string_view text, std::int64_t radix) {
    std::string digits(strip(text, Side::both, nullptr));
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.erase(0, 1);
    static constexpr std::array<std::pair<char, int>, 3> kPrefixes{{{'x', 16}, {'o', 8}, {'b', 2}}};
    for (const auto& [letter, base_number] : kPrefixes) {
        const bool prefixed = digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter;
        if (prefixed && (radix == base_number || radix == 0)) {
            digits.erase(0, 2);
            if (digits.starts_with('_')) digits.erase(0, 1);
            radix = base_number;
        }
    }
    if (radix == 0) radix = 10;
    if (radix < 2 || radix > 36) return std::optional<std::int64_t>();
    if (!drop_underscores(digits) || digits.empty()) return std::optional<std::int64_t>();
    if (digits[0] == '-' || digits[0] == '+') return std::optional<std::int64_t>();
    if (negative) digits.insert(0, "-");
    std::int64_t number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number,
                                        static_cast<int>(radix));
    if (parsed.ptr != digits.data() + digits.size()) return std::optional<std::int64_t>();
    if (parsed.ec == std::errc::result_out_of_range)
        return base::invalid("int: " + digits + " does not fit in 64 bits");
    if (parsed.ec != std::errc()) return std::optional<std::int64_t>();
    return std::optional<std::int64_t>(number);
}

// Python's float(text); none if it is no number.
std::optional<double> parse_real(std::string_view text) {
    std::string digits(strip(text, Side::both, nullptr));
    if (!drop_underscores(digits) || digits.empty()) return std::nullopt;
    // strtod also reads hexadecimal digits and nan(...), which Python does not.
    if (digits.find_first_of("xX(") != std::string::npos) return std::nullopt;
    char* end = nullptr;
    const double number = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) return std::nullopt;
    return number;
}

Result<Value> truncated(double number) {
    if (!std::isfinite(number)) return base::invalid("int: cannot convert an infinity or a NaN");
    if (std::abs(number) >= 9.2e18) return base::invalid("int: the number does not fit in 64 bits");
    return make_int(static_cast<std::int64_t>(number));
}

Result<Value> to_integer(const FilterCall& call) {
    TRY(const Bound bound, call.bind("default base"));
    if (auto error = undefined_error(call.value)) return *error;
    const Value fallback = bound.at_or(0, make_int(0));
    if (const auto* number = call.value.get<double>()) {
        if (std::isnan(*number)) return fallback;
        return truncated(*number);
    }
    std::int64_t storage = 0;
    if (const auto* number = as_int(call.value, storage)) return make_int(*number);
    const auto* text = call.value.get<Text>();
    if (text == nullptr) return fallback;
    TRY(const std::int64_t radix, bound.int_at(1, 10));
    TRY(const auto whole, parse_integer(text->str(), radix));
    if (whole) return make_int(*whole);
    const auto real = parse_real(text->str());
    if (!real || std::isnan(*real)) return fallback;
    return truncated(*real);
}

Result<Value> to_real(const FilterCall& call) {
    TRY(const Bound bound, call.bind("default"));
    if (auto error = undefined_error(call.value)) return *error;
    if (call.value.is<double>()) return call.value;
    std::int64_t storage = 0;
    if (const auto* number = as_int(call.value, storage))
        return Value(static_cast<double>(*number));
    const auto* text = call.value.get<Text>();
    const auto real = text != nullptr ? parse_real(text->str()) : std::nullopt;
    return real ? Value(*real) : bound.at_or(0, Value(0.0));
}

Result<Value> absolute(const FilterCall& call) {
    TRY_VOID(call.bind(""));
    if (auto error = undefined_error(call.value)) return *error;
    if (const auto* number = call.value.get<double>()) return Value(std::abs(*number));
    std::int64_t storage = 0;
    const auto* number = as_int(call.value, storage);
    if (number == nullptr)
        return base::invalid("abs needs a number, not '" + type_name(call.value) + "'");
    return *number < 0 ? negate(make_int(*number)) : Result<Value>(make_int(*number));
}

// Rounds to `digits` decimals as Python's round: halves of the exact binary value go to even.
double round_decimal(double number, std::int64_t digits) {
    if (!std::isfinite(number) || digits > 300) return number;
    if (digits < 0) {
        const double scale = std::pow(10.0, static_cast<double>(-digits));
        return std::nearbyint(number / scale) * scale;
    }
    std::array<char, 700> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), number);
    return std::strtod(buffer.data(), nullptr);
}

Result<Value> round_number(const FilterCall& call) {
    TRY(const Bound bound, call.bind("precision method"));
    TRY(const std::int64_t digits, bound.int_at(0, 0));
    TRY(const std::string method, bound.text_at(1, "common"));
    if (auto error = undefined_error(call.value)) return *error;
    if (method != "common" && method != "ceil" && method != "floor") {
        return base::invalid("round: method must be common, ceil or floor, not '" + method + "'");
    }
    std::int64_t storage = 0;
    const auto* integer = as_int(call.value, storage);
    if (integer == nullptr && !call.value.is<double>()) {
        return base::invalid("round needs a number, not '" + type_name(call.value) + "'");
    }
    if (method == "common") {
        if (integer == nullptr) return Value(round_decimal(*call.value.get<double>(), digits));
        if (digits >= 0) return make_int(*integer);
        return make_int(
            static_cast<std::int64_t>(round_decimal(static_cast<double>(*integer), digits)));
    }
    const double number =
        integer != nullptr ? static_cast<double>(*integer) : *call.value.get<double>();
    const double scale = std::pow(10.0, static_cast<double>(digits));
    const double scaled = method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale);
    if (!std::isfinite(scaled)) return base::invalid("round: the number is out of range");
    return Value((scaled == 0.0 ? 0.0 : scaled) / scale);
}

}  // namespace

const FilterTable& number_filters() {
    static const FilterTable table{
        {"int", to_integer}, {"float", to_real}, {"abs", absolute}, {"round", round_number}};
    return table;
}

}  // namespace helix::text::jinja
