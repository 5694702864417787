#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace helix::base {

// XXH3, 128 bits: detects corruption and tells contents apart. Not a defence against an adversary;
// the transport's authentication is.
struct Hash128 {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    bool operator==(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes);
// The hash as 32 lower-case hexadecimal digits.
std::string to_hex(const Hash128& hash);

}  // namespace helix::base
