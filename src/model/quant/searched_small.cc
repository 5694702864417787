// Searches of the types in blocks of 32.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "model/quant/five_bits.h"
#include "model/quant/half.h"
#include "model/quant/iq4_nl.h"
#include "model/quant/q4_0.h"
#include "model/quant/q4_1.h"
#include "model/quant/q5_0.h"
#include "model/quant/q5_1.h"
#include "model/quant/q8_0.h"
#include "model/quant/search.h"
#include "model/quant/searched.h"

namespace helix::model::quant {
namespace {

constexpr int kSize = 32;

float inverse_of(float scale) {
    return scale != 0 ? 1.0F / scale : 0.0F;
}

// Number i is by how much the element's level is above the least one.
template <typename Levels>
std::uint16_t scaled_numbers(const Levels& levels, const float* values, const float* weights,
                             float (&numbers)[kSize]) {
    const std::uint16_t scale = float_to_half(search_scale<kSize>(levels, values, weights));
    const float inverse = inverse_of(half_to_float(scale));
    for (int i = 0; i < kSize; ++i) numbers[i] = levels.nearest(values[i] * inverse);
    return scale;
}

struct HalfLine {
    std::uint16_t scale;
    std::uint16_t min;
};

// The scale is not negative. With the start rounded, the step follows it.
HalfLine line_numbers(const float* values, const float* weights, float top,
                      float (&numbers)[kSize]) {
    const WholeLevels levels{0, top};
    Line line = search_line<kSize>(values, weights, top, false);
    if (line.step < 0) line = {-line.step, line.start + line.step * top};
    HalfLine halves{float_to_half(line.step), float_to_half(line.start)};
    const float start = half_to_float(halves.min);
    float shifted[kSize];
    for (int i = 0; i < kSize; ++i) shifted[i] = values[i] - start;
    const float step = half_to_float(halves.scale);
    const ScaleFit fit = fit_levels<kSize>(levels, shifted, weights, inverse_of(step));
    const std::uint16_t fitted = float_to_half(fit.scale);
    if (fit.scale > 0 && line_error<kSize>(values, weights, {half_to_float(fitted), start}, top) <
                             line_error<kSize>(values, weights, {step, start}, top)) {
        halves.scale = fitted;
    }
    const float inverse = inverse_of(half_to_float(halves.scale));
    for (int i = 0; i < kSize; ++i) numbers[i] = levels.nearest(shifted[i] * inverse);
    return halves;
}

// Two elements in a byte.
template <typename Number>
void put_nibbles(const Number& number, std::uint8_t (&q)[16]) {
    for (int i = 0; i < 16; ++i)
        q[i] = static_cast<std::uint8_t>(number(i) | (number(i + 16) << 4U));
}

}  // namespace

void search_q8_0(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockQ8_0 made{};
    made.scale = scaled_numbers(WholeLevels{-127, 127}, values, weights, numbers);
    for (int i = 0; i < kSize; ++i) made.q[i] = static_cast<std::int8_t>(numbers[i]);
    std::memcpy(block, &made, sizeof made);
}

void search_q4_0(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockQ4_0 made{};
    made.scale = scaled_numbers(WholeLevels{-8, 7}, values, weights, numbers);
    put_nibbles([&](int i) { return static_cast<unsigned>(numbers[i] + 8.0F); }, made.q);
    std::memcpy(block, &made, sizeof made);
}

void search_iq4_nl(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockIq4Nl made{};
    made.scale = scaled_numbers(UnevenLevels{}, values, weights, numbers);
    put_nibbles([&](int i) { return nearest_iq4_level(numbers[i], 1.0F); }, made.q);
    std::memcpy(block, &made, sizeof made);
}

void search_q5_0(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockQ5_0 made{};
    made.scale = scaled_numbers(WholeLevels{-16, 15}, values, weights, numbers);
    for (int i = 0; i < kSize; ++i)
        put_five_bits(made, i, static_cast<unsigned>(numbers[i] + 16.0F));
    std::memcpy(block, &made, sizeof made);
}

void search_q4_1(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockQ4_1 made{};
    const HalfLine line = line_numbers(values, weights, 15, numbers);
    made.scale = line.scale;
    made.min = line.min;
    put_nibbles([&](int i) { return static_cast<unsigned>(numbers[i]); }, made.q);
    std::memcpy(block, &made, sizeof made);
}

void search_q5_1(const float* values, const float* weights, std::byte* block) {
    float numbers[kSize];
    BlockQ5_1 made{};
    const HalfLine line = line_numbers(values, weights, 31, numbers);
    made.scale = line.scale;
    made.min = line.min;
    for (int i = 0; i < kSize; ++i) put_five_bits(made, i, static_cast<unsigned>(numbers[i]));
    std::memcpy(block, &made, sizeof made);
}

}  // namespace helix::model::quant
