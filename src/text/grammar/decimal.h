#pragma once

#include <compare>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace helix::text::grammar {

// A number as its decimal digits, exactly.
struct Decimal {
    bool negative = false;    // never of 0
    std::string whole = "0";  // without leading zeros
    std::string fraction;     // without trailing zeros

    static constexpr std::size_t kMaxDigits = 400;

    // Of a JSON number; nothing if it has more than kMaxDigits digits.
    static std::optional<Decimal> of(const nlohmann::ordered_json& number);

    bool is_zero() const { return whole == "0" && fraction.empty(); }
    bool is_whole() const { return fraction.empty(); }
    std::strong_ordering operator<=>(const Decimal& other) const;
    bool operator==(const Decimal& other) const = default;

    // The smallest whole number that is not below, and the largest that is not above; as text.
    std::string rounded_up() const;
    std::string rounded_down() const;
    // The whole number next to a whole one.
    Decimal plus_one() const;
    Decimal minus_one() const;
    std::string text() const;
};

}  // namespace helix::text::grammar
