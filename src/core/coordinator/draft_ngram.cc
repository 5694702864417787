#include "core/coordinator/draft_ngram.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/random.h"

namespace helix::core {
namespace {

constexpr std::size_t kLeastSlots = 64;

}  // namespace

NgramDrafter::NgramDrafter(std::int32_t shortest, std::int32_t longest) {
    CHECK(0 < shortest && shortest <= longest);
    for (std::int32_t n = longest; n >= shortest; --n) {
        places_.push_back({static_cast<std::size_t>(n), 0, {}});
    }
}

std::uint64_t NgramDrafter::hash(std::size_t end, std::size_t n) const {
    std::uint64_t h = 0;
    for (std::size_t i = end - n; i < end; ++i) {
        h = base::hash_pair(h, static_cast<std::uint64_t>(text_[i]));
    }
    return h;
}

// That of the n-gram that ends there, or where it would go.
std::size_t NgramDrafter::slot_of(const Places& places, std::size_t end) const {
    const std::size_t mask = places.slots.size() - 1;
    const auto at = [&](std::size_t e) { return text_.begin() + static_cast<std::ptrdiff_t>(e); };
    std::size_t slot = static_cast<std::size_t>(hash(end, places.n)) & mask;
    while (places.slots[slot] != 0) {
        const std::size_t other = places.slots[slot];
        if (std::equal(at(end - places.n), at(end), at(other - places.n))) break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

void NgramDrafter::note(Places& places, std::size_t end) {
    if ((places.used + 1) * 2 > places.slots.size()) {
        std::vector<std::uint32_t> old(std::max(kLeastSlots, places.slots.size() * 2));
        old.swap(places.slots);
        for (const std::uint32_t known : old) {
            if (known != 0) places.slots[slot_of(places, known)] = known;
        }
    }
    std::uint32_t& slot = places.slots[slot_of(places, end)];
    if (slot == 0) ++places.used;
    slot = static_cast<std::uint32_t>(end);
}

void NgramDrafter::append(std::span<const Token> tokens) {
    CHECK(text_.size() + tokens.size() < std::numeric_limits<std::uint32_t>::max());
    std::size_t end = text_.size();
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    // What ended there is followed by something now.
    for (; end < text_.size(); ++end) {
        for (Places& places : places_) {
            if (end >= places.n) note(places, end);
        }
    }
}

std::vector<Token> NgramDrafter::draft(std::int32_t count) const {
    std::vector<Token> drafted;
    if (count <= 0) return drafted;
    for (const Places& places : places_) {
        if (text_.size() < places.n || places.slots.empty()) continue;
        std::size_t next = places.slots[slot_of(places, text_.size())];
        if (next == 0) continue;
        for (std::int32_t i = 0; i < count; ++i, ++next) {
            drafted.push_back(next < text_.size() ? text_[next] : drafted[next - text_.size()]);
        }
        break;
    }
    return drafted;
}

}  // namespace helix::core
