#include "sim/load/load_random.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace helix::sim {

PythonRandom::PythonRandom(std::uint64_t seed) {
    std::vector<std::uint32_t> key = {static_cast<std::uint32_t>(seed)};
    if (seed >> 32 != 0) key.push_back(static_cast<std::uint32_t>(seed >> 32));
    words_[0] = 19650218;
    for (std::uint32_t i = 1; i < kWords; ++i) {
        words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
    }
    std::size_t i = 1;
    std::size_t j = 0;
    const auto advance = [&] {
        if (++i < kWords) return;
        words_[0] = words_[kWords - 1];
        i = 1;
    };
    for (std::size_t k = std::max(kWords, key.size()); k > 0; --k) {
        const std::uint32_t previous = words_[i - 1] ^ (words_[i - 1] >> 30);
        words_[i] = (words_[i] ^ (previous * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
        advance();
        j = (j + 1) % key.size();
    }
    for (std::size_t k = kWords - 1; k > 0; --k) {
        const std::uint32_t previous = words_[i - 1] ^ (words_[i - 1] >> 30);
        words_[i] = (words_[i] ^ (previous * 1566083941U)) - static_cast<std::uint32_t>(i);
        advance();
    }
    words_[0] = 0x80000000U;
}

void PythonRandom::refill() {
    for (std::size_t k = 0; k < kWords; ++k) {
        const std::uint32_t y =
            (words_[k] & 0x80000000U) | (words_[(k + 1) % kWords] & 0x7fffffffU);
        words_[k] = words_[(k + 397) % kWords] ^ (y >> 1) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
    }
    used_ = 0;
}

std::uint32_t PythonRandom::next() {
    if (used_ == kWords) refill();
    std::uint32_t y = words_[used_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

double PythonRandom::uniform() {
    const std::uint32_t high = next() >> 5;
    const std::uint32_t low = next() >> 6;
    return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

std::uint32_t PythonRandom::below(std::uint32_t bound) {
    CHECK(bound > 0);
    const auto bits = static_cast<std::uint32_t>(std::bit_width(bound));
    std::uint32_t drawn = next() >> (32 - bits);
    while (drawn >= bound) drawn = next() >> (32 - bits);
    return drawn;
}

}  // namespace helix::sim
