#include "model/tensor_type.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/quant/codes.h"
#include "model/quant/half.h"

namespace helix::model::tensor_type_test {
namespace {

constexpr TensorType kAll[] = {
    TensorType::f32,     TensorType::f16,   TensorType::bf16,    TensorType::q8_0,
    TensorType::q4_0,    TensorType::q4_1,  TensorType::q5_0,    TensorType::q5_1,
    TensorType::q3_k,    TensorType::q4_k,  TensorType::q5_k,    TensorType::q6_k,
    TensorType::iq4_nl,  TensorType::mxfp4, TensorType::q2_k,    TensorType::iq4_xs,
    TensorType::iq3_xxs, TensorType::iq3_s, TensorType::iq2_xxs, TensorType::iq2_xs,
    TensorType::iq2_s,   TensorType::iq1_s, TensorType::iq1_m,   TensorType::tq1_0,
    TensorType::tq2_0,   TensorType::nvfp4, TensorType::fp8,     TensorType::int4};

std::vector<float> dequantize(TensorType type, const std::vector<std::uint8_t>& bytes) {
    const TensorTypeInfo& info = *tensor_type_info(type);
    std::vector<float> out(bytes.size() / static_cast<std::size_t>(info.block_bytes) *
                           static_cast<std::size_t>(info.block_size));
    dequantize_row(type, std::as_bytes(std::span(bytes)), out.data());
    return out;
}

std::vector<float> round_trip(TensorType type, const std::vector<float>& values) {
    const TensorTypeInfo& info = *tensor_type_info(type);
    std::vector<std::uint8_t> bytes(values.size() / static_cast<std::size_t>(info.block_size) *
                                    static_cast<std::size_t>(info.block_bytes));
    quantize_row(type, values, std::as_writable_bytes(std::span(bytes)).data());
    return dequantize(type, bytes);
}

// Random values that are roughly normal with deviation one.
std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
    base::Random random(seed);
    std::vector<float> values(count);
    for (float& value : values) {
        double sum = 0;
        for (int i = 0; i < 12; ++i) sum += random.uniform();
        value = static_cast<float>(sum - 6);
    }
    return values;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(double{a[i]} - double{b[i]}, 2);
        size += std::pow(double{a[i]}, 2);
    }
    return std::sqrt(difference / size);
}

// The value of a binary16 pattern by its definition, for all but infinities and NaN.
double half_by_definition(unsigned bits) {
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    const int exponent = static_cast<int>((bits >> 10) & 31U);
    const double fraction = (bits & 1023U) / 1024.0;
    return sign *
           (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
}

TEST(Half, EveryPatternHasItsDefinedValueAndComesBack) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = quant::half_to_float(half);
        if (((bits >> 10) & 31U) != 31) {
            ASSERT_EQ(double{value}, half_by_definition(bits)) << bits;
            ASSERT_EQ(quant::float_to_half(value), half) << bits;
        } else if ((bits & 1023U) == 0) {
            ASSERT_TRUE(std::isinf(value)) << bits;
            ASSERT_EQ(quant::float_to_half(value), half) << bits;
        } else {
            ASSERT_TRUE(std::isnan(value)) << bits;
            ASSERT_TRUE(std::isnan(quant::half_to_float(quant::float_to_half(value)))) << bits;
        }
    }
}

TEST(Half, RoundsToNearestWithTiesToEven) {
    for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // midpoints of neighbours
        const double low = half_by_definition(bits);
        const double high = half_by_definition(bits + 1);
        const auto middle =
            static_cast<float>((low + high) / 2);  // exact: one more bit than binary16
        const unsigned even = bits % 2 == 0 ? bits : bits + 1;
        ASSERT_EQ(quant::float_to_half(middle), even) << bits;
        const float infinity = std::numeric_limits<float>::infinity();
        ASSERT_EQ(quant::float_to_half(std::nextafter(middle, infinity)), bits + 1) << bits;
        ASSERT_EQ(quant::float_to_half(std::nextafter(middle, -infinity)), bits) << bits;
    }
    EXPECT_EQ(quant::float_to_half(65519.0F), 0x7bffU);
    EXPECT_EQ(quant::float_to_half(65520.0F), 0x7c00U);
    EXPECT_EQ(quant::float_to_half(-1e30F), 0xfc00U);
}

TEST(Bfloat, IsTheUpperHalfOfAFloatRoundedToEven) {
    EXPECT_EQ(quant::bfloat_to_float(0x3fc0), 1.5F);
    EXPECT_EQ(quant::float_to_bfloat(1.5F), 0x3fc0U);
    EXPECT_EQ(quant::float_to_bfloat(std::bit_cast<float>(0x3f808000U)),
              0x3f80U);  // tie, down to even
    EXPECT_EQ(quant::float_to_bfloat(std::bit_cast<float>(0x3f818000U)),
              0x3f82U);  // tie, up to even
    EXPECT_EQ(quant::float_to_bfloat(std::bit_cast<float>(0x3f808001U)), 0x3f81U);
    EXPECT_TRUE(std::isnan(quant::bfloat_to_float(quant::float_to_bfloat(std::nanf("")))));
}

TEST(TensorType, TableKnowsEachTypeByNumberAndName) {
    for (const TensorType type : kAll) {
        const TensorTypeInfo* info = tensor_type_info(type);
        ASSERT_NE(info, nullptr);
        ASSERT_NE(tensor_type_by_name(info->name), nullptr);
        EXPECT_EQ(*tensor_type_by_name(info->name), type);
        const auto number = static_cast<std::uint32_t>(type);
        EXPECT_STREQ(ggml_type_name(number), number < 65536 ? info->name : nullptr);
    }
    EXPECT_EQ(tensor_type_info(static_cast<TensorType>(15)), nullptr);
    EXPECT_EQ(tensor_type_by_name("q8_k"), nullptr);
    EXPECT_STREQ(ggml_type_name(40), "nvfp4");
    EXPECT_EQ(ggml_type_name(100000), nullptr);
}

TEST(Quant, Q8_0BlockIsScaleTimesSignedBytes) {
    std::vector<std::uint8_t> block(34);
    block[1] = 0x38;  // 0x3800: 0.5
    for (int i = 0; i < 32; ++i)
        block[static_cast<std::size_t>(2 + i)] = static_cast<std::uint8_t>(i + 240);
    const std::vector<float> out = dequantize(TensorType::q8_0, block);
    for (int i = 0; i < 32; ++i)
        EXPECT_EQ(double{out[static_cast<std::size_t>(i)]}, 0.5 * (i - 16));
}

TEST(Quant, Q4_0BlockHasLowNibblesFirst) {
    std::vector<std::uint8_t> block(18);
    block[1] = 0xc0;  // 0xc000: -2
    for (unsigned i = 0; i < 16; ++i) block[2 + i] = static_cast<std::uint8_t>(i | ((15 - i) << 4));
    const std::vector<float> out = dequantize(TensorType::q4_0, block);
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(double{out[static_cast<std::size_t>(i)]}, -2.0 * (i - 8));
        EXPECT_EQ(double{out[static_cast<std::size_t>(i + 16)]}, -2.0 * (15 - i - 8));
    }
}

TEST(Quant, Q4KBlockUnpacksSixBitScalesAndMins) {
    // Group scales and mins that use all six bits, packed by the format's rule written out bit by
    // bit.
    constexpr std::array<unsigned, 8> scales{1, 62, 33, 17, 45, 63, 20, 50};
    constexpr std::array<unsigned, 8> mins{63, 2, 40, 21, 18, 35, 60, 49};
    std::vector<std::uint8_t> block(144);
    block[1] = 0x34;  // 0x3400: 0.25
    block[3] = 0x3c;  // 0x3c00: 1
    for (unsigned j = 0; j < 4; ++j) {
        block[4 + j] = static_cast<std::uint8_t>(scales[j] + ((scales[j + 4] >> 4) << 6));
        block[8 + j] = static_cast<std::uint8_t>(mins[j] + ((mins[j + 4] >> 4) << 6));
        block[12 + j] = static_cast<std::uint8_t>((scales[j + 4] % 16) + ((mins[j + 4] % 16) << 4));
    }
    for (unsigned i = 0; i < 128; ++i) block[16 + i] = static_cast<std::uint8_t>(i * 37 + 11);
    const std::vector<float> out = dequantize(TensorType::q4_k, block);
    for (unsigned e = 0; e < 256; ++e) {
        const unsigned group = e / 32;
        const unsigned byte = block[16 + group / 2 * 32 + e % 32];
        const unsigned nibble = group % 2 == 0 ? byte % 16 : byte / 16;
        EXPECT_EQ(double{out[e]}, 0.25 * scales[group] * nibble - 1.0 * mins[group]) << e;
    }
}

TEST(Quant, Q6KBlockJoinsFourAndTwoBits) {
    std::vector<std::uint8_t> block(210);
    for (unsigned i = 0; i < 128; ++i) block[i] = static_cast<std::uint8_t>(i * 73 + 5);
    for (unsigned i = 0; i < 64; ++i) block[128 + i] = static_cast<std::uint8_t>(i * 151 + 29);
    for (unsigned i = 0; i < 16; ++i) block[192 + i] = static_cast<std::uint8_t>(i * 16 + 3);
    block[209] = 0x30;  // 0x3000: 0.125
    const std::vector<float> out = dequantize(TensorType::q6_k, block);
    for (unsigned e = 0; e < 256; ++e) {
        const unsigned half = e / 128;
        const unsigned quarter = e % 128 / 32;
        const unsigned i = e % 32;
        const unsigned low_byte = block[half * 64 + (quarter % 2) * 32 + i];
        const unsigned low = quarter < 2 ? low_byte % 16 : low_byte / 16;
        const unsigned high = (unsigned{block[128 + half * 32 + i]} >> (2 * quarter)) % 4;
        const int scale = static_cast<std::int8_t>(block[192 + e / 16]);
        const int q = static_cast<int>(low + 16 * high) - 32;
        EXPECT_EQ(double{out[e]}, 0.125 * scale * q) << e;
    }
}

// Bytes that show every bit, with 0.5 (and, where there is one, a min of -2) in front.
std::vector<std::uint8_t> block_of_32(std::size_t bytes, bool has_min) {
    std::vector<std::uint8_t> block(bytes);
    for (std::size_t i = 0; i < bytes; ++i) block[i] = static_cast<std::uint8_t>(i * 73 + 29);
    block[0] = 0;
    block[1] = 0x38;
    if (has_min) {
        block[2] = 0;
        block[3] = 0xc0;
    }
    return block;
}

unsigned nibble_of_32(const std::vector<std::uint8_t>& block, std::size_t first, unsigned e) {
    const unsigned byte = block[first + e % 16];
    return e < 16 ? byte % 16 : byte / 16;
}

TEST(Quant, Q4_1BlockHasAMin) {
    const auto block = block_of_32(20, true);
    const auto out = dequantize(TensorType::q4_1, block);
    for (unsigned e = 0; e < 32; ++e) {
        EXPECT_EQ(double{out[e]}, 0.5 * nibble_of_32(block, 4, e) - 2) << e;
    }
}

TEST(Quant, Q5BlocksTakeTheirFifthBitsInOrder) {
    for (const bool has_min : {false, true}) {
        const std::size_t high = has_min ? 4 : 2;
        const auto block = block_of_32(high + 20, has_min);
        const auto out = dequantize(has_min ? TensorType::q5_1 : TensorType::q5_0, block);
        for (unsigned e = 0; e < 32; ++e) {
            const unsigned fifth = unsigned{block[high + e / 8]} >> (e % 8) & 1U;
            const double q = nibble_of_32(block, high + 4, e) + 16.0 * fifth;
            EXPECT_EQ(double{out[e]}, has_min ? 0.5 * q - 2 : 0.5 * (q - 16)) << e;
        }
    }
}

TEST(Quant, LevelFormatsReadTheirTables) {
    const auto nl = block_of_32(18, false);
    const auto out_nl = dequantize(TensorType::iq4_nl, nl);
    constexpr int kNonLinear[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
    for (unsigned e = 0; e < 32; ++e) {
        EXPECT_EQ(double{out_nl[e]}, 0.5 * kNonLinear[nibble_of_32(nl, 2, e)]) << e;
    }
    auto mx = block_of_32(17, false);
    constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (const unsigned exponent : {0U, 1U, 2U, 100U, 127U, 200U, 250U}) {
        mx[0] = static_cast<std::uint8_t>(exponent);
        const auto out = dequantize(TensorType::mxfp4, mx);
        for (unsigned e = 0; e < 32; ++e) {
            const unsigned code = nibble_of_32(mx, 1, e);
            const double value = (code >= 8 ? -1 : 1) * kE2m1[code % 8];
            EXPECT_EQ(double{out[e]}, std::ldexp(value, static_cast<int>(exponent) - 127)) << e;
        }
    }
}

TEST(Quant, Q5KBlockAddsFifthBitsToQ4K) {
    std::vector<std::uint8_t> block(176);
    for (unsigned i = 0; i < 176; ++i) block[i] = static_cast<std::uint8_t>(i * 101 + 7);
    block[0] = 0;
    block[1] = 0x34;  // 0.25
    block[2] = 0;
    block[3] = 0x3c;  // 1
    std::vector<std::uint8_t> four(144);
    std::copy_n(block.begin(), 16, four.begin());
    std::copy_n(block.begin() + 48, 128, four.begin() + 16);
    const auto out = dequantize(TensorType::q5_k, block);
    const auto low = dequantize(TensorType::q4_k, four);
    for (unsigned e = 0; e < 256; ++e) {
        const unsigned group = e / 32;
        const unsigned scale = group < 4 ? block[4 + group] % 64U
                                         : (block[8 + group] % 16U) + block[group] / 64U * 16U;
        const unsigned fifth = unsigned{block[16 + e % 32]} >> group & 1U;
        EXPECT_EQ(double{out[e]}, double{low[e]} + 0.25 * scale * 16 * fifth) << e;
    }
}

TEST(Quant, Q3KBlockJoinsTwoBitsAndOne) {
    std::vector<std::uint8_t> block(110);
    for (unsigned i = 0; i < 108; ++i) block[i] = static_cast<std::uint8_t>(i * 151 + 29);
    block[109] = 0x30;  // 0.125
    const auto out = dequantize(TensorType::q3_k, block);
    for (unsigned e = 0; e < 256; ++e) {
        const unsigned group = e / 16;
        const unsigned nibbles = block[96 + group % 8];
        const unsigned fours = block[104 + group % 4];
        const int scale = static_cast<int>((group < 8 ? nibbles % 16 : nibbles / 16) +
                                           16 * (fours >> (group / 4 * 2) & 3U)) -
                          32;
        const unsigned low = unsigned{block[32 + e / 128 * 32 + e % 32]} >> (e / 32 % 4 * 2) & 3U;
        const unsigned high = unsigned{block[e % 32]} >> (e / 32) & 1U;
        EXPECT_EQ(double{out[e]}, 0.125 * scale * (static_cast<int>(low + 4 * high) - 4)) << e;
    }
}

TEST(Quant, Q2KBlockHasAScaleAndAMinOfSixteen) {
    std::vector<std::uint8_t> block(84);
    for (unsigned i = 0; i < 80; ++i) block[i] = static_cast<std::uint8_t>(i * 151 + 29);
    block[81] = 0x30;  // 0.125
    block[83] = 0xbc;  // -1
    const auto out = dequantize(TensorType::q2_k, block);
    for (unsigned e = 0; e < 256; ++e) {
        const unsigned both = block[e / 16];
        const unsigned q = unsigned{block[16 + e / 128 * 32 + e % 32]} >> (e / 32 % 4 * 2) & 3U;
        EXPECT_EQ(double{out[e]}, 0.125 * (both % 16) * q + 1.0 * (both / 16)) << e;
    }
}

// The bits that ggml's own conversions give (ggml 0.21) for blocks of pseudorandom
// bytes, as FNV-1a of 32-bit words.
TEST(Quant, RandomBlocksHaveTheValuesThatGgmlGivesThem) {
    struct Known {
        TensorType type;
        std::vector<std::size_t> scales;  // upper bytes of halves: none is infinite
        std::uint64_t hash;
    };
    const Known known[] = {{TensorType::q2_k, {81, 83}, 0x08f25664dfd62875},
                           {TensorType::iq4_xs, {1}, 0xc3d6bf4a42c8bb0b},
                           {TensorType::iq3_s, {1}, 0xe52b76f805a67da5},
                           {TensorType::iq3_xxs, {1}, 0x9bcf4915e26437bd},
                           {TensorType::iq2_xxs, {1}, 0x5f6d02462c627009},
                           {TensorType::iq2_xs, {1}, 0x6aa7a0a765b7fdc1},
                           {TensorType::iq2_s, {1}, 0x2baceb753395d6a1},
                           {TensorType::iq1_s, {1}, 0x54a9dcbee052bac5},
                           {TensorType::iq1_m, {55}, 0x2bcbd3eeb0ca7965},
                           {TensorType::tq1_0, {53}, 0xc7dbce8c99662325},
                           {TensorType::tq2_0, {65}, 0x5d7b6c3c1c538325},
                           {TensorType::nvfp4, {}, 0x843bb4e6f1422325}};
    for (const Known& one : known) {
        const auto block_bytes = static_cast<std::size_t>(tensor_type_info(one.type)->block_bytes);
        std::vector<std::uint8_t> bytes(1024 * block_bytes);
        std::uint64_t state = 1;
        for (std::uint8_t& byte : bytes) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            byte = static_cast<std::uint8_t>(state >> 56U);
        }
        for (std::size_t b = 0; b < bytes.size(); b += block_bytes) {
            for (const std::size_t at : one.scales) bytes[b + at] &= 0xbf;
        }
        std::uint64_t hash = 0xcbf29ce484222325;
        for (const float value : dequantize(one.type, bytes)) {
            const std::uint32_t bits = value == 0 ? 0 : std::bit_cast<std::uint32_t>(value);
            hash = (hash ^ bits) * 0x100000001b3;
        }
        EXPECT_EQ(hash, one.hash) << tensor_type_info(one.type)->name;
    }
}

TEST(Quant, RoundTripErrorIsThatOfTheBitsKept) {
    const std::vector<float> values = random_values(256 * 64, 5);
    const std::pair<TensorType, double> limits[] = {
        {TensorType::f32, 0.0},     {TensorType::f16, 3e-4},   {TensorType::bf16, 3e-3},
        {TensorType::q8_0, 0.008},  {TensorType::q4_0, 0.11},  {TensorType::q4_k, 0.10},
        {TensorType::q6_k, 0.03},   {TensorType::q4_1, 0.10},  {TensorType::q5_0, 0.06},
        {TensorType::q5_1, 0.05},   {TensorType::q3_k, 0.22},  {TensorType::q5_k, 0.05},
        {TensorType::iq4_nl, 0.1},  {TensorType::mxfp4, 0.16}, {TensorType::q2_k, 0.4},
        {TensorType::iq4_xs, 0.11}, {TensorType::iq3_s, 0.22}, {TensorType::iq3_xxs, 0.3},
        {TensorType::iq2_xxs, 0.4}, {TensorType::iq2_xs, 0.4}, {TensorType::iq2_s, 0.4},
        {TensorType::iq1_s, 0.7},   {TensorType::iq1_m, 0.65}, {TensorType::tq1_0, 0.85},
        {TensorType::tq2_0, 0.85},  {TensorType::nvfp4, 0.12}, {TensorType::fp8, 0.03},
        {TensorType::int4, 0.11}};
    for (const auto& [type, limit] : limits) {
        EXPECT_LE(relative_error(values, round_trip(type, values)), limit)
            << tensor_type_info(type)->name;
    }
}

// Every byte that is a number in E4M3: (-1)^s (1 + m / 8) 2^(e - 7), or m / 8 2^-6 where e is 0.
TEST(Quant, Fp8HoldsE4m3NumbersTimesAScale) {
    for (unsigned bits = 0; bits < 256; ++bits) {
        if ((bits & 127U) == 127) continue;
        std::vector<std::uint8_t> block(68, 0);
        const float scale = 256 * 0.7F;  // of 0.7
        std::memcpy(block.data(), &scale, sizeof scale);
        block[4 + bits % 64] = static_cast<std::uint8_t>(bits);
        const int exponent = static_cast<int>(bits >> 3U & 15U);
        const auto fraction = static_cast<double>(bits & 7U);
        const double number =
            exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
        const double expected = static_cast<double>(0.7F) * (bits < 128 ? number : -number);
        const auto values = dequantize(TensorType::fp8, block);
        ASSERT_EQ(values.size(), 64U);
        EXPECT_EQ(values[bits % 64], static_cast<float>(expected)) << bits;
        EXPECT_EQ(values[(bits + 1) % 64], 0.0F) << bits;
    }
}

// 1 / 8 as a half, and as a bfloat; zeros of 3 and 15.
TEST(Quant, Int4HoldsNumbersLessAZeroTimesAScaleOfTwoKinds) {
    std::vector<std::uint8_t> blocks(38, 0x50);  // of 0 and 5
    blocks[0] = 0x00;
    blocks[1] = 0x30;
    blocks[2] = 3;
    blocks[19] = 0x00;
    blocks[20] = 0x3e;
    blocks[21] = 0x8f;
    const auto values = dequantize(TensorType::int4, blocks);
    ASSERT_EQ(values.size(), 64U);
    EXPECT_EQ(values[0], -0.375F);
    EXPECT_EQ(values[16], 0.25F);
    EXPECT_EQ(values[32], -1.875F);
    EXPECT_EQ(values[63], -1.25F);
}

TEST(Quant, FactorsAreOfMatricesOfOneType) {
    EXPECT_EQ(factor_tensor(TensorType::nvfp4, "blk.3.ffn_up_exps.weight"),
              "blk.3.ffn_up_exps.scale");
    EXPECT_EQ(factor_tensor(TensorType::nvfp4, "output.weight"), "output.scale");
    EXPECT_EQ(factor_tensor(TensorType::nvfp4, "blk.3.ffn_up.bias"), "");
    EXPECT_EQ(factor_tensor(TensorType::mxfp4, "output.weight"), "");
}

TEST(Quant, ZeroRowsStayZeroAndConstantRowsStayClose) {
    for (const TensorType type : kAll) {
        const char* name = tensor_type_info(type)->name;
        for (const float value : round_trip(type, std::vector<float>(512, 0.0F))) {
            ASSERT_EQ(value, 0.0F) << name;
        }
        if (quant::find_decoder(type) != nullptr) continue;  // few points have equal elements
        for (const float constant : {0.75F, -0.75F}) {
            for (const float value : round_trip(type, std::vector<float>(512, constant))) {
                ASSERT_NEAR(value, constant, 0.02) << name;
            }
        }
    }
}

TEST(Quant, ExtremesOfABlockAreKept) {
    std::vector<float> values = random_values(512, 9);
    values[37] = 9.0F;
    values[300] = -11.0F;
    for (const TensorType type : kAll) {
        const std::vector<float> back = round_trip(type, values);
        double step = 0.35;
        if (type == TensorType::mxfp4) step = 1;   // its levels there: 8 and 12
        if (type == TensorType::q2_k) step = 1.5;  // of four bits for a group's scale and min
        if (type == TensorType::iq1_s || type == TensorType::iq1_m) step = 2;  // 7/8 or 9/8
        EXPECT_NEAR(back[37], 9.0F, step) << tensor_type_info(type)->name;
        EXPECT_NEAR(back[300], -11.0F, step) << tensor_type_info(type)->name;
    }
}

TEST(Quant, RowsAreIndependentOfTheirNeighbours) {
    const std::vector<float> values = random_values(1024, 21);
    for (const TensorType type : kAll) {
        const std::vector<float> whole = round_trip(type, values);
        const std::vector<float> part =
            round_trip(type, {values.begin() + 512, values.begin() + 768});
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 512))
            << tensor_type_info(type)->name;
    }
}

}  // namespace
}  // namespace helix::model::tensor_type_test
