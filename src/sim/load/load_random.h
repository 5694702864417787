#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace helix::sim {

// CPython's `random`: MT19937 (Matsumoto, Nishimura 1998) seeded by init_by_array with the seed's
// 32-bit words, and the ways Python draws from it. The published simulations took their request
// lengths, arrivals and random routes from it; with it they are repeated draw by draw.
class PythonRandom {
  public:
    explicit PythonRandom(std::uint64_t seed);

    double uniform();                          // random.random(): [0, 1), 53 bits
    std::uint32_t below(std::uint32_t bound);  // random.randint(0, bound - 1); bound > 0
    template <typename T>
    void shuffle(std::vector<T>& items) {  // random.shuffle
        for (std::size_t i = items.size(); i > 1; --i) {
            std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
        }
    }

  private:
    static constexpr std::size_t kWords = 624;

    std::uint32_t next();
    void refill();

    std::array<std::uint32_t, kWords> words_{};
    std::size_t used_ = kWords;
};

}  // namespace helix::sim
