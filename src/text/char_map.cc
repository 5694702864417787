#include "text/char_map.h"

#include <fmt/format.h>

#include <cstring>

namespace helix::text {
namespace {

constexpr std::uint32_t kIsText = 1U << 31U;  // a unit that is no node
constexpr std::size_t kUnitBytes = 4;

std::uint32_t unit_at(std::string_view bytes, std::size_t at) {
    std::uint32_t unit = 0;
    for (std::size_t i = kUnitBytes; i > 0; --i)
        unit = unit << 8U | static_cast<unsigned char>(bytes[at + i - 1]);
    return unit;
}

std::uint32_t offset_of(std::uint32_t unit) {
    const std::uint32_t offset = (unit & ~kIsText) >> 10U;
    return (unit & 1U << 9U) != 0 ? offset << 8U : offset;
}

}  // namespace

base::Result<CharMap> CharMap::parse(std::string_view bytes) {
    if (bytes.size() < kUnitBytes) {
        return base::invalid(fmt::format("{} bytes, expected a size of 4 first", bytes.size()));
    }
    const std::size_t n = unit_at(bytes, 0);
    const std::string_view rest = bytes.substr(kUnitBytes);
    if (n == 0 || n % kUnitBytes != 0 || n > rest.size()) {
        return base::invalid(fmt::format(
            "a trie of {} bytes of {}, expected a multiple of 4 that is there", n, rest.size()));
    }
    CharMap map;
    map.texts_ = rest.substr(n);
    if (map.texts_.empty() || map.texts_.back() != '\0')
        return base::invalid("the texts do not end with a zero byte");
    for (std::size_t at = 0; at < n; at += kUnitBytes) {
        const std::uint32_t unit = unit_at(rest, at);
        if ((unit & kIsText) != 0 && (unit & ~kIsText) >= map.texts_.size()) {
            return base::invalid(fmt::format("unit {} of the trie is of a text at {}, of {} bytes",
                                             at / kUnitBytes, unit & ~kIsText, map.texts_.size()));
        }
        map.units_.push_back(unit);
    }
    return map;
}

CharMap::Entry CharMap::longest(std::string_view text) const {
    constexpr std::uint32_t kHasEntry = 1U << 8U;
    Entry entry;
    if (units_.empty()) return entry;
    std::size_t node = offset_of(units_[0]);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        node ^= byte;
        // A node's byte is no text's: bit 31 tells them apart.
        if (byte == 0 || node >= units_.size() || (units_[node] & (kIsText | 0xffU)) != byte) break;
        const std::uint32_t unit = units_[node];
        node ^= offset_of(unit);
        if ((unit & kHasEntry) == 0) continue;
        if (node >= units_.size() || (units_[node] & kIsText) == 0) break;
        entry.length = i + 1;
        entry.text = std::string_view(texts_.data() + (units_[node] & ~kIsText));
    }
    return entry;
}

}  // namespace helix::text
