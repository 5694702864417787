#include "text/grammar/decimal.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace helix::text::grammar {
namespace {

std::string incremented(std::string digits) {
    for (std::size_t i = digits.size(); i-- > 0;) {
        if (digits[i] != '9') {
            ++digits[i];
            return digits;
        }
        digits[i] = '0';
    }
    return "1" + digits;
}

// Of a number above 0.
std::string decremented(std::string digits) {
    for (std::size_t i = digits.size(); i-- > 0;) {
        if (digits[i] != '0') {
            --digits[i];
            break;
        }
        digits[i] = '9';
    }
    return digits.size() > 1 && digits[0] == '0' ? digits.substr(1) : digits;
}

std::strong_ordering compare_sizes(const Decimal& a, const Decimal& b) {
    if (a.whole.size() != b.whole.size()) return a.whole.size() <=> b.whole.size();
    if (a.whole != b.whole) return a.whole <=> b.whole;
    return a.fraction <=> b.fraction;  // no trailing zeros: the order of texts is that of numbers
}

}  // namespace

std::optional<Decimal> Decimal::of(const nlohmann::ordered_json& number) {
    const std::string text = number.dump();
    Decimal out;
    std::string digits;
    std::size_t i = 0;
    if (text[0] == '-') i = 1;
    std::int64_t point = 0;  // digits before it
    bool in_fraction = false;
    for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
        if (text[i] == '.') {
            in_fraction = true;
            continue;
        }
        digits += text[i];
        if (!in_fraction) ++point;
    }
    if (i < text.size()) point += std::strtoll(text.c_str() + i + 1, nullptr, 10);
    const auto limit = static_cast<std::int64_t>(kMaxDigits);
    if (point > limit || point < -limit || digits.size() > kMaxDigits) return {};
    if (point < 0) digits.insert(0, static_cast<std::size_t>(-point), '0');
    const auto before = static_cast<std::size_t>(std::max<std::int64_t>(point, 0));
    if (digits.size() < before) digits.append(before - digits.size(), '0');
    out.whole = digits.substr(0, before);
    out.fraction = digits.substr(before);
    out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
    if (out.whole.empty()) out.whole = "0";
    while (!out.fraction.empty() && out.fraction.back() == '0') out.fraction.pop_back();
    out.negative = text[0] == '-' && !out.is_zero();
    return out;
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
    if (negative != other.negative) {
        return negative ? std::strong_ordering::less : std::strong_ordering::greater;
    }
    return negative ? compare_sizes(other, *this) : compare_sizes(*this, other);
}

std::string Decimal::text() const {
    return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

std::string Decimal::rounded_up() const {
    const std::string size = !negative && !fraction.empty() ? incremented(whole) : whole;
    return (negative && size != "0" ? "-" : "") + size;
}

std::string Decimal::rounded_down() const {
    const std::string size = negative && !fraction.empty() ? incremented(whole) : whole;
    return (negative && size != "0" ? "-" : "") + size;
}

Decimal Decimal::plus_one() const {
    if (!negative) return {false, incremented(whole), ""};
    const std::string size = decremented(whole);
    return {size != "0", size, ""};
}

Decimal Decimal::minus_one() const {
    if (negative || is_zero()) return {true, incremented(whole), ""};
    return {false, decremented(whole), ""};
}

}  // namespace helix::text::grammar
