#include "base/hex.h"

#include <algorithm>
#include <charconv>

namespace helix::base {

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string digits;
    digits.reserve(bytes.size() * 2);
    for (const std::byte byte : bytes) {
        digits += kDigits[std::to_integer<unsigned>(byte) >> 4U];
        digits += kDigits[std::to_integer<unsigned>(byte) & 15U];
    }
    return digits;
}

std::string to_hex(std::string_view bytes) {
    return to_hex(std::as_bytes(std::span(bytes)));
}

std::optional<std::string> from_hex(std::string_view digits, std::size_t bytes) {
    if (digits.size() != bytes * 2) return {};
    std::string out;
    out.reserve(bytes);
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const int high = hex_digit(digits[i]);
        const int low = hex_digit(digits[i + 1]);
        if (high < 0 || low < 0) return {};
        out += static_cast<char>(high * 16 + low);
    }
    return out;
}

std::optional<Hash128> hash_from_hex(std::string_view digits) {
    constexpr std::size_t kHalf = 16;
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (digits.size() != 2 * kHalf || !std::ranges::all_of(digits, is_digit)) return {};
    Hash128 hash;
    std::from_chars(digits.data(), digits.data() + kHalf, hash.high, 16);
    std::from_chars(digits.data() + kHalf, digits.data() + digits.size(), hash.low, 16);
    return hash;
}

}  // namespace helix::base
