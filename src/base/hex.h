#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace helix::base {

// What a digit of either case stands for; -1 when it is none.
constexpr int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

// Bytes as lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);
std::string to_hex(std::string_view bytes);
// And back, from digits of either case; nothing when these are not digits for so many bytes.
std::optional<std::string> from_hex(std::string_view digits, std::size_t bytes);
// What to_hex(Hash128) wrote; nothing when these are not 32 lower-case digits.
std::optional<Hash128> hash_from_hex(std::string_view digits);

}  // namespace helix::base
