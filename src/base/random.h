#pragma once

#include <cstdint>

// Seeded randomness as values. Counter-based: the same (seed, counter) gives the same number on
// every machine, so nothing has to be carried along when work moves.

namespace helix::base {

// SplitMix64 finaliser (Steele, Lea, Flood 2014): a bijective mix of 64 bits.
constexpr std::uint64_t mix64(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

constexpr std::uint64_t hash_pair(std::uint64_t a, std::uint64_t b) {
    return mix64(mix64(a) ^ b);
}

// A number in [0, 1) with 53 bits.
constexpr double unit_double(std::uint64_t bits) {
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

class Random {
  public:
    explicit Random(std::uint64_t seed) : seed_(seed) {}
    std::uint64_t next() { return hash_pair(seed_, counter_++); }
    double uniform() { return unit_double(next()); }
    // A number in [0, bound), with bound > 0. The bias is below 2^-32 for bounds below 2^32.
    std::uint64_t below(std::uint64_t bound) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
    }
    std::int64_t between(std::int64_t low, std::int64_t high) {  // inclusive
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    bool chance(double p) { return uniform() < p; }

  private:
    std::uint64_t seed_;
    std::uint64_t counter_ = 0;
};

}  // namespace helix::base
