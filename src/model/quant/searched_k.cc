// Searches of the types whose blocks of 256 have groups with scales of their own, which are whole
// numbers times a scale of the block's.
//
// First each group is fitted by itself, as if its scale could be any number. Then the block's scale
// is taken from these, each group takes the whole number near its own that leaves the least error,
// and the block's scale that is best for all levels and whole numbers follows from least squares;
// the last two in turns, while the error falls.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "model/quant/half.h"
#include "model/quant/iq4_nl.h"
#include "model/quant/iq4_xs.h"
#include "model/quant/q2_k.h"
#include "model/quant/q3_k.h"
#include "model/quant/q4_k.h"
#include "model/quant/q5_k.h"
#include "model/quant/q6_k.h"
#include "model/quant/search.h"
#include "model/quant/searched.h"

namespace helix::model::quant {
namespace {

constexpr int kElements = 256;
constexpr int kMaxGroups = 16;
constexpr int kTurns = 4;

float inverse_of(float scale) {
    return scale != 0 ? 1.0F / scale : 0.0F;
}

float limited(float value, float low, float high) {
    return std::clamp(round_even(std::clamp(value, low - 1.0F, high + 1.0F)), low, high);
}

// ---- without offsets ------------------------------------------------------------------------

struct ScaledBlock {
    std::uint16_t scale = 0;
    float share[kMaxGroups] = {};  // of each group: its whole number
    float numbers[kElements] = {};
    float error = std::numeric_limits<float>::infinity();
};

// What the groups' whole numbers may be.
struct Shares {
    float low;
    float high;
};

template <int kSize, typename Levels>
ScaledBlock with_scale(const Levels& levels, Shares shares, const float* x, const float* w,
                       const float* scales, float block_scale) {
    ScaledBlock block;
    block.scale = float_to_half(block_scale);
    const float scale = half_to_float(block.scale);
    block.error = 0;
    for (int g = 0; g < kElements / kSize; ++g) {
        const float* values = x + g * kSize;
        const float* weights = w + g * kSize;
        const float middle = limited(scales[g] * inverse_of(scale), shares.low, shares.high);
        float least = std::numeric_limits<float>::infinity();
        for (float share = std::max(middle - 1.0F, shares.low);
             share <= std::min(middle + 1.0F, shares.high); share += 1.0F) {
            const float error = scale_error<kSize>(levels, values, weights, scale * share);
            if (error < least) least = error, block.share[g] = share;
        }
        block.error += least;
        const float inverse = inverse_of(scale * block.share[g]);
        for (int i = 0; i < kSize; ++i)
            block.numbers[g * kSize + i] = levels.nearest(values[i] * inverse);
    }
    return block;
}

// The block's scale of least error for its whole numbers and levels.
template <int kSize>
float refitted_scale(const ScaledBlock& block, const float* x, const float* w) {
    double product = 0;
    double square = 0;
    for (int i = 0; i < kElements; ++i) {
        const float units = block.share[i / kSize] * block.numbers[i];
        product += double{w[i] * x[i] * units};
        square += double{w[i] * units * units};
    }
    return static_cast<float>(square > 0 ? product / square : 0);
}

template <int kSize, typename Levels>
ScaledBlock search_scaled(const Levels& levels, Shares shares, const float* x, const float* w) {
    constexpr int kGroups = kElements / kSize;
    float scales[kMaxGroups] = {};
    float extreme = 0;
    for (int g = 0; g < kGroups; ++g) {
        scales[g] = search_scale<kSize>(levels, x + g * kSize, w + g * kSize);
        if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
    }
    ScaledBlock best;
    // The greatest scale becomes the lowest whole number, or one a little nearer to zero.
    for (const float part : {1.0F, 0.97F, 0.9F}) {
        float scale = extreme / (part * shares.low);
        for (int turn = 0; turn < kTurns; ++turn) {
            const ScaledBlock block = with_scale<kSize>(levels, shares, x, w, scales, scale);
            if (!(block.error < best.error)) break;
            best = block;
            scale = refitted_scale<kSize>(block, x, w);
        }
    }
    return best;
}

// ---- with offsets ---------------------------------------------------------------------------

struct OffsetBlock {
    std::uint16_t scale = 0;
    std::uint16_t min = 0;
    float share[kMaxGroups] = {};  // of each group: the whole number of its step
    float below[kMaxGroups] = {};  // and of its offset
    float numbers[kElements] = {};
    float error = std::numeric_limits<float>::infinity();
};

struct Offsets {
    float top;    // the last level
    float share;  // the greatest whole number
};

template <int kSize>
OffsetBlock with_scales(Offsets limits, const float* x, const float* w, const Line* lines,
                        float block_scale, float block_min) {
    OffsetBlock block;
    block.scale = float_to_half(block_scale);
    block.min = float_to_half(block_min);
    const float scale = half_to_float(block.scale);
    const float min = half_to_float(block.min);
    block.error = 0;
    const WholeLevels levels{0, limits.top};
    for (int g = 0; g < kElements / kSize; ++g) {
        const float* values = x + g * kSize;
        const float* weights = w + g * kSize;
        const float middle = limited(lines[g].step * inverse_of(scale), 0, limits.share);
        const float depth = limited(-lines[g].start * inverse_of(min), 0, limits.share);
        float least = std::numeric_limits<float>::infinity();
        for (float share = std::max(middle - 1.0F, 0.0F);
             share <= std::min(middle + 1.0F, limits.share); share += 1.0F) {
            for (float below = std::max(depth - 1.0F, 0.0F);
                 below <= std::min(depth + 1.0F, limits.share); below += 1.0F) {
                const Line line{scale * share, -min * below};
                const float error = line_error<kSize>(values, weights, line, limits.top);
                if (error < least) least = error, block.share[g] = share, block.below[g] = below;
            }
        }
        block.error += least;
        const float inverse = inverse_of(scale * block.share[g]);
        const float start = -min * block.below[g];
        for (int i = 0; i < kSize; ++i)
            block.numbers[g * kSize + i] = levels.nearest((values[i] - start) * inverse);
    }
    return block;
}

// The block's scales of least error for its whole numbers and levels: step and -start.
template <int kSize>
Line refitted_line(const OffsetBlock& block, const float* x, const float* w) {
    double aa = 0;
    double ab = 0;
    double bb = 0;
    double ax = 0;
    double bx = 0;
    for (int i = 0; i < kElements; ++i) {
        const float a = block.share[i / kSize] * block.numbers[i];
        const float b = -block.below[i / kSize];
        aa += double{w[i] * a * a};
        ab += double{w[i] * a * b};
        bb += double{w[i] * b * b};
        ax += double{w[i] * a * x[i]};
        bx += double{w[i] * b * x[i]};
    }
    const double determinant = aa * bb - ab * ab;
    if (determinant > 1e-9 * aa * bb) {
        return {static_cast<float>((bb * ax - ab * bx) / determinant),
                static_cast<float>((aa * bx - ab * ax) / determinant)};
    }
    return {static_cast<float>(aa > 0 ? ax / aa : 0), half_to_float(block.min)};
}

template <int kSize>
OffsetBlock search_offsets(Offsets limits, const float* x, const float* w) {
    Line lines[kMaxGroups];
    Line most;
    for (int g = 0; g < kElements / kSize; ++g) {
        lines[g] = search_line<kSize>(x + g * kSize, w + g * kSize, limits.top, true);
        most.step = std::max(most.step, lines[g].step);
        most.start = std::max(most.start, -lines[g].start);
    }
    OffsetBlock best;
    for (const float part : {1.0F, 0.95F, 0.88F}) {
        Line line{most.step / (part * limits.share), most.start / (part * limits.share)};
        for (int turn = 0; turn < kTurns; ++turn) {
            if (line.step < 0 || line.start < 0) break;
            const OffsetBlock block =
                with_scales<kSize>(limits, x, w, lines, line.step, line.start);
            if (!(block.error < best.error)) break;
            best = block;
            line = refitted_line<kSize>(block, x, w);
        }
    }
    return best;
}

template <typename Block>
void put_group_lines(Block& block, const OffsetBlock& found) {
    block.scale = found.scale;
    block.min = found.min;
    for (int g = 0; g < 8; ++g) {
        put_group_scale_min(
            block.packed, g,
            {static_cast<std::uint8_t>(found.share[g]), static_cast<std::uint8_t>(found.below[g])});
    }
}

}  // namespace

void search_q2_k(const float* values, const float* weights, std::byte* block) {
    const OffsetBlock found = search_offsets<16>({3, 15}, values, weights);
    BlockQ2K made{};
    made.scale = found.scale;
    made.min = found.min;
    for (int g = 0; g < 16; ++g) {
        made.packed[g] = static_cast<std::uint8_t>(static_cast<unsigned>(found.share[g]) |
                                                   static_cast<unsigned>(found.below[g]) << 4U);
    }
    for (int e = 0; e < kElements; ++e) {
        std::uint8_t& byte = made.q[32 * (e / 128) + e % 32];
        byte = static_cast<std::uint8_t>(byte | static_cast<unsigned>(found.numbers[e])
                                                    << (2 * (e % 128 / 32)));
    }
    std::memcpy(block, &made, sizeof made);
}

void search_q4_k(const float* values, const float* weights, std::byte* block) {
    const OffsetBlock found = search_offsets<32>({15, 63}, values, weights);
    BlockQ4K made{};
    put_group_lines(made, found);
    for (int e = 0; e < kElements; ++e) {
        std::uint8_t& byte = made.q[e / 64 * 32 + e % 32];
        byte = static_cast<std::uint8_t>(byte | static_cast<unsigned>(found.numbers[e])
                                                    << (e / 32 % 2 == 0 ? 0U : 4U));
    }
    std::memcpy(block, &made, sizeof made);
}

void search_q5_k(const float* values, const float* weights, std::byte* block) {
    const OffsetBlock found = search_offsets<32>({31, 63}, values, weights);
    BlockQ5K made{};
    put_group_lines(made, found);
    for (int e = 0; e < kElements; ++e) {
        const auto number = static_cast<unsigned>(found.numbers[e]);
        std::uint8_t& low = made.low[e / 64 * 32 + e % 32];
        std::uint8_t& high = made.high[e % 32];
        low = static_cast<std::uint8_t>(low | (number & 15U) << (e / 32 % 2 == 0 ? 0U : 4U));
        high = static_cast<std::uint8_t>(high | (number >> 4U) << static_cast<unsigned>(e / 32));
    }
    std::memcpy(block, &made, sizeof made);
}

void search_q3_k(const float* values, const float* weights, std::byte* block) {
    const ScaledBlock found =
        search_scaled<16>(WholeLevels{-4, 3}, Shares{-32, 31}, values, weights);
    BlockQ3K made{};
    made.scale = found.scale;
    for (int g = 0; g < 16; ++g)
        put_group_scale(made.packed, g, static_cast<unsigned>(found.share[g] + 32.0F));
    for (int e = 0; e < kElements; ++e)
        put_element(made, e, static_cast<unsigned>(found.numbers[e] + 4.0F));
    std::memcpy(block, &made, sizeof made);
}

void search_q6_k(const float* values, const float* weights, std::byte* block) {
    const ScaledBlock found =
        search_scaled<16>(WholeLevels{-32, 31}, Shares{-128, 127}, values, weights);
    BlockQ6K made{};
    made.scale = found.scale;
    for (int g = 0; g < 16; ++g) made.scales[g] = static_cast<std::int8_t>(found.share[g]);
    for (int e = 0; e < kElements; ++e)
        put_element(made, e, static_cast<unsigned>(found.numbers[e] + 32.0F));
    std::memcpy(block, &made, sizeof made);
}

void search_iq4_xs(const float* values, const float* weights, std::byte* block) {
    const ScaledBlock found = search_scaled<32>(UnevenLevels{}, Shares{-32, 31}, values, weights);
    BlockIq4Xs made{};
    made.scale = found.scale;
    for (int g = 0; g < 8; ++g) {
        const auto share = static_cast<unsigned>(found.share[g] + 32.0F);
        std::uint8_t& low = made.low[g / 2];
        low = static_cast<std::uint8_t>(low | (share & 15U) << (4 * (g % 2)));
        made.high = static_cast<std::uint16_t>(made.high | (share >> 4U) << (2 * g));
    }
    for (int e = 0; e < kElements; ++e) {
        std::uint8_t& byte = made.q[e / 32 * 16 + e % 16];
        const unsigned number = nearest_iq4_level(found.numbers[e], 1.0F);
        byte = static_cast<std::uint8_t>(byte | number << (e % 32 < 16 ? 0U : 4U));
    }
    std::memcpy(block, &made, sizeof made);
}

}  // namespace helix::model::quant
