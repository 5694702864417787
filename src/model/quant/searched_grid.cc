// Searches of the types whose codes number the points of a grid (grid_points.h).
//
// For a unit, each four or eight elements take the point with the least weighted error; for the
// points, the best unit follows from least squares. Groups' units are the block's scale times an
// odd number, as in searched_k.cc.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "model/quant/grid_points.h"
#include "model/quant/grids.h"
#include "model/quant/half.h"
#include "model/quant/iq2.h"
#include "model/quant/iq3.h"
#include "model/quant/search.h"
#include "model/quant/searched.h"

namespace helix::model::quant {
namespace {

constexpr int kElements = 256;
constexpr int kMaxTuples = 8;  // of a group
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of grids whose elements have three levels, and of those that have eight.
constexpr std::uint8_t kThree[] = {8, 25, 43};
constexpr std::uint8_t kEight[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::uint8_t kEightOdd[] = {1, 3, 5, 7, 9, 11, 13, 15};

constexpr auto kIq3XxsPoints = unpack_points(kIq3XxsGrid, kEight, 3);
constexpr auto kIq3SPoints = unpack_points(kIq3SGrid, kEightOdd, 3);
constexpr auto kIq2XxsPoints = unpack_points(kIq2XxsGrid, kThree, 2);
constexpr auto kIq2XsPoints = unpack_points(kIq2XsGrid, kThree, 2);
constexpr auto kIq2SPoints = unpack_points(kIq2SGrid, kThree, 2);

// A grid, and how a type uses it.
template <const auto& kPoints, const auto& kLevels, int kPerPoint, int kGroupSize, bool kEvenSigns>
struct Grid {
    static constexpr int kPer = kPerPoint;
    static constexpr int kGroup = kGroupSize;
    static constexpr int kGroups = kElements / kGroupSize;
    static constexpr int kTuples = kGroupSize / kPerPoint;
    static constexpr bool kEven = kEvenSigns;
    static constexpr std::size_t kCount = kPoints.size();
    static constexpr std::size_t kNumberOfLevels = std::size(kLevels);
    static constexpr const auto& points() { return kPoints; }
    static constexpr float level(std::size_t i) { return kLevels[i]; }
};

using Iq3Xxs = Grid<kIq3XxsPoints, kEight, 4, 32, true>;
using Iq3S = Grid<kIq3SPoints, kEightOdd, 4, 32, false>;
using Iq2Xxs = Grid<kIq2XxsPoints, kThree, 8, 32, true>;
using Iq2Xs = Grid<kIq2XsPoints, kThree, 8, 16, true>;
using Iq2S = Grid<kIq2SPoints, kThree, 8, 16, false>;

// For every combination of levels the grid's points that are nearest to it, the nearest first. If
// the nearest level of each element makes a point, that one has the least error, whatever the
// weights; else it is looked for among these.
template <typename G>
class NearPoints {
  public:
    static constexpr std::size_t kNear = 32;

    // Made when the first row of the type is.
    static const NearPoints& get() {
        static const NearPoints made;
        return made;
    }

    const float* levels(unsigned point) const { return levels_[point].data(); }

    // The point of least weighted error for numbers of units: of sum w (L - 2 u) L.
    unsigned best(const float* numbers, const float* w) const {
        std::size_t combination = 0;
        for (int e = 0; e < G::kPer; ++e) {
            std::size_t level = 0;
            for (std::size_t i = 0; i + 1 < G::kNumberOfLevels; ++i)
                level += numbers[e] > 0.5F * (G::level(i) + G::level(i + 1)) ? 1U : 0U;
            combination = combination * G::kNumberOfLevels + level;
        }
        const std::uint16_t* near = near_.data() + combination * kNear;
        if (is_point_[combination]) return near[0];
        unsigned best = 0;
        float least = kInfinity;
        for (std::size_t i = 0; i < kNear; ++i) {
            const std::array<float, G::kPer>& point = levels_[near[i]];
            float score = 0;
            for (std::size_t e = 0; e < G::kPer; ++e)
                score += w[e] * (point[e] - 2.0F * numbers[e]) * point[e];
            if (score < least) least = score, best = near[i];
        }
        return best;
    }

  private:
    NearPoints() {
        std::size_t combinations = 1;
        for (int e = 0; e < G::kPer; ++e) combinations *= G::kNumberOfLevels;
        for (std::size_t p = 0; p < G::kCount; ++p) {
            for (std::size_t e = 0; e < G::kPer; ++e)
                levels_[p][e] = static_cast<float>(G::points()[p] >> (8 * e) & 0xffU);
        }
        near_.resize(combinations * kNear);
        is_point_.resize(combinations);
        for (std::size_t c = 0; c < combinations; ++c) order(c);
    }

    void order(std::size_t combination) {
        std::array<float, G::kPer> at;
        std::size_t rest = combination;
        for (std::size_t e = G::kPer; e-- > 0; rest /= G::kNumberOfLevels)
            at[e] = G::level(rest % G::kNumberOfLevels);
        std::array<std::pair<float, std::uint16_t>, G::kCount> distances;
        for (std::size_t p = 0; p < G::kCount; ++p) {
            float distance = 0;
            for (std::size_t e = 0; e < G::kPer; ++e)
                distance += (at[e] - levels_[p][e]) * (at[e] - levels_[p][e]);
            distances[p] = {distance, static_cast<std::uint16_t>(p)};
        }
        std::partial_sort(distances.begin(), distances.begin() + kNear, distances.end());
        for (std::size_t i = 0; i < kNear; ++i)
            near_[combination * kNear + i] = distances[i].second;
        is_point_[combination] = distances[0].first == 0;
    }

    std::array<std::array<float, G::kPer>, G::kCount> levels_;
    std::vector<std::uint16_t> near_;  // [combinations, kNear]
    std::vector<bool> is_point_;       // [combinations]
};

// A group's elements as magnitudes and signs. Where the number of signs of eight elements must be
// even, the one whose change costs least is changed: its magnitude is then negative.
struct SignedGroup {
    float magnitude[32];
    std::uint8_t signs[4];
};
template <typename G>
SignedGroup signs_of(const float* x, const float* w) {
    SignedGroup of{};
    float squares = 0;
    for (int i = 0; i < G::kGroup; ++i) squares += x[i] * x[i];
    // About where the lowest level of the other sign will be.
    const float other = 0.25F * std::sqrt(squares / G::kGroup);
    for (int eight = 0; eight < G::kGroup / 8; ++eight) {
        unsigned signs = 0;
        int cheapest = 0;
        float cost = kInfinity;
        for (int e = 0; e < 8; ++e) {
            const int i = 8 * eight + e;
            of.magnitude[i] = std::fabs(x[i]);
            if (std::signbit(x[i])) signs |= 1U << static_cast<unsigned>(e);
            const float across = of.magnitude[i] + other;
            const float own = std::min(of.magnitude[i] - other, 0.0F);
            const float change = w[i] * (across * across - own * own);
            if (change < cost) cost = change, cheapest = e;
        }
        if (G::kEven && std::popcount(signs) % 2 != 0) {
            signs ^= 1U << static_cast<unsigned>(cheapest);
            of.magnitude[8 * eight + cheapest] = -of.magnitude[8 * eight + cheapest];
        }
        of.signs[eight] = static_cast<std::uint8_t>(signs);
    }
    return of;
}

struct GroupPoints {
    unsigned point[kMaxTuples] = {};
    float product = 0;  // of elements and levels, weighted
    float square = 0;   // of levels
    float error = kInfinity;
    float refitted() const { return square > 0 ? product / square : 0.0F; }
};

template <typename G>
GroupPoints points_with(const SignedGroup& group, const float* w, float unit) {
    const NearPoints<G>& near = NearPoints<G>::get();
    GroupPoints found;
    found.error = 0;
    const float inverse = unit != 0 ? 1.0F / unit : 0.0F;
    for (int t = 0; t < G::kTuples; ++t) {
        const float* magnitude = group.magnitude + t * G::kPer;
        const float* weights = w + t * G::kPer;
        float numbers[8];
        for (int e = 0; e < G::kPer; ++e) numbers[e] = magnitude[e] * inverse;
        found.point[t] = near.best(numbers, weights);
        const float* levels = near.levels(found.point[t]);
        for (int e = 0; e < G::kPer; ++e) {
            const float level = levels[e];
            const float off = magnitude[e] - unit * level;
            found.product += weights[e] * magnitude[e] * level;
            found.square += weights[e] * level * level;
            found.error += weights[e] * off * off;
        }
    }
    return found;
}

// The unit of a group by itself. Begins with those that bring the greatest magnitude near the last
// level, and with the one that brings it to the first, for groups whose magnitudes are all the
// same.
template <typename G>
float search_unit(const SignedGroup& group, const float* w) {
    float greatest = 0;
    for (int i = 0; i < G::kGroup; ++i)
        greatest = std::max(greatest, std::fabs(group.magnitude[i]));
    if (!(greatest > 0)) return 0;
    float unit = 0;
    float least = kInfinity;
    constexpr float kTop = G::level(G::kNumberOfLevels - 1);
    for (const float part : {1.1F, 0.95F, 0.82F, 0.7F, 0.58F, 0.46F, kTop / G::level(0)}) {
        float tried = part * greatest / kTop;
        for (int turn = 0; turn < 2; ++turn) {
            const GroupPoints found = points_with<G>(group, w, tried);
            if (!(found.error < least)) break;
            least = found.error;
            unit = tried;
            tried = found.refitted();
        }
    }
    return unit;
}

template <typename G>
struct GridBlock {
    std::uint16_t scale = 0;
    unsigned odd[G::kGroups] = {};
    GroupPoints points[G::kGroups];
    SignedGroup groups[G::kGroups];
    float error = kInfinity;
};

// Scales as stored are `part` of the units of levels: unit = scale * part * (2 odd + 1).
template <typename G>
void choose_odds(GridBlock<G>& block, const float* w, const float* units, float part) {
    const float scale = half_to_float(block.scale) * part;
    block.error = 0;
    for (int g = 0; g < G::kGroups; ++g) {
        const float half = scale > 0 ? (units[g] / scale - 1.0F) * 0.5F : 0.0F;
        const float middle = round_even(std::clamp(half, 0.0F, 15.0F));
        GroupPoints best;
        for (float odd = std::max(middle - 1.0F, 0.0F); odd <= std::min(middle + 1.0F, 15.0F);
             odd += 1.0F) {
            const GroupPoints found =
                points_with<G>(block.groups[g], w + g * G::kGroup, scale * (2.0F * odd + 1.0F));
            if (found.error < best.error) best = found, block.odd[g] = static_cast<unsigned>(odd);
        }
        block.points[g] = best;
        block.error += best.error;
    }
}

template <typename G>
GridBlock<G> search_grid(const float* x, const float* w, float part) {
    GridBlock<G> block;
    float units[G::kGroups];
    float most = 0;
    for (int g = 0; g < G::kGroups; ++g) {
        block.groups[g] = signs_of<G>(x + g * G::kGroup, w + g * G::kGroup);
        units[g] = search_unit<G>(block.groups[g], w + g * G::kGroup);
        most = std::max(most, units[g]);
    }
    GridBlock<G> best = block;
    float scale = most / (31.0F * part);
    for (int turn = 0; turn < 3; ++turn) {
        block.scale = float_to_half(scale);
        choose_odds(block, w, units, part);
        if (!(block.error < best.error)) break;
        best = block;
        double product = 0;
        double square = 0;
        for (int g = 0; g < G::kGroups; ++g) {
            const double odd = part * static_cast<float>(2 * block.odd[g] + 1);
            product += odd * block.points[g].product;
            square += odd * odd * block.points[g].square;
        }
        scale = static_cast<float>(square > 0 ? product / square : 0);
        if (scale < 0) break;
    }
    return best;
}

// Four times seven signs, and odd above them.
std::uint32_t packed_signs(const SignedGroup& group, unsigned odd) {
    std::uint32_t signs = std::uint32_t{odd} << 28U;
    for (unsigned i = 0; i < 4; ++i) signs |= (group.signs[i] & 127U) << (7U * i);
    return signs;
}

template <typename Block>
void put_odd(Block& block, int group, unsigned odd) {
    std::uint8_t& byte = block.odd[group / 2];
    byte = static_cast<std::uint8_t>(byte | odd << (4 * (group % 2)));
}

}  // namespace

void search_iq3_xxs(const float* values, const float* weights, std::byte* block) {
    const auto found = search_grid<Iq3Xxs>(values, weights, 0.25F);
    BlockIq3Xxs made{};
    made.scale = found.scale;
    for (int g = 0; g < 8; ++g) {
        for (int t = 0; t < 8; ++t)
            made.points[8 * g + t] = static_cast<std::uint8_t>(found.points[g].point[t]);
        const std::uint32_t signs = packed_signs(found.groups[g], found.odd[g]);
        std::memcpy(made.signs + 4 * g, &signs, sizeof signs);
    }
    std::memcpy(block, &made, sizeof made);
}

void search_iq3_s(const float* values, const float* weights, std::byte* block) {
    const auto found = search_grid<Iq3S>(values, weights, 1.0F);
    BlockIq3S made{};
    made.scale = found.scale;
    for (int g = 0; g < 8; ++g) {
        put_odd(made, g, found.odd[g]);
        std::memcpy(made.signs + 4 * g, found.groups[g].signs, 4);
        for (int t = 0; t < 8; ++t) {
            const unsigned point = found.points[g].point[t];
            made.points[8 * g + t] = static_cast<std::uint8_t>(point);
            made.high[g] = static_cast<std::uint8_t>(made.high[g] | point >> 8U << t);
        }
    }
    std::memcpy(block, &made, sizeof made);
}

void search_iq2_xxs(const float* values, const float* weights, std::byte* block) {
    const auto found = search_grid<Iq2Xxs>(values, weights, 0.125F);
    BlockIq2Xxs made{};
    made.scale = found.scale;
    for (int g = 0; g < 8; ++g) {
        std::uint8_t* to = made.groups + 8 * g;
        for (int t = 0; t < 4; ++t) to[t] = static_cast<std::uint8_t>(found.points[g].point[t]);
        const std::uint32_t signs = packed_signs(found.groups[g], found.odd[g]);
        std::memcpy(to + 4, &signs, sizeof signs);
    }
    std::memcpy(block, &made, sizeof made);
}

void search_iq2_xs(const float* values, const float* weights, std::byte* block) {
    const auto found = search_grid<Iq2Xs>(values, weights, 0.125F);
    BlockIq2Xs made{};
    made.scale = found.scale;
    for (int i = 0; i < 32; ++i) {
        const auto both = static_cast<std::uint16_t>(
            found.points[i / 2].point[i % 2] | (found.groups[i / 2].signs[i % 2] & 127U) << 9U);
        std::memcpy(made.points + 2 * i, &both, sizeof both);
    }
    for (int g = 0; g < 16; ++g) put_odd(made, g, found.odd[g]);
    std::memcpy(block, &made, sizeof made);
}

void search_iq2_s(const float* values, const float* weights, std::byte* block) {
    const auto found = search_grid<Iq2S>(values, weights, 0.125F);
    BlockIq2S made{};
    made.scale = found.scale;
    for (int i = 0; i < 32; ++i) {
        const unsigned point = found.points[i / 2].point[i % 2];
        made.points[i] = static_cast<std::uint8_t>(point);
        made.signs[i] = found.groups[i / 2].signs[i % 2];
        std::uint8_t& high = made.high[i / 4];
        high = static_cast<std::uint8_t>(high | point >> 8U << (2 * (i % 4)));
    }
    for (int g = 0; g < 16; ++g) put_odd(made, g, found.odd[g]);
    std::memcpy(block, &made, sizeof made);
}

}  // namespace helix::model::quant
