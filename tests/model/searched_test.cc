#include "model/quant/searched.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/quant/search.h"

namespace helix::model::searched_test {
namespace {

constexpr TensorType kSearched[] = {TensorType::q8_0,   TensorType::q4_0,    TensorType::q4_1,
                                    TensorType::q5_0,   TensorType::q5_1,    TensorType::iq4_nl,
                                    TensorType::q2_k,   TensorType::q3_k,    TensorType::q4_k,
                                    TensorType::q5_k,   TensorType::q6_k,    TensorType::iq4_xs,
                                    TensorType::iq2_xs, TensorType::iq2_xxs, TensorType::iq3_xxs,
                                    TensorType::iq3_s,  TensorType::iq2_s};

enum class Draw { normal, heavy_tailed };

float draw(base::Random& random, Draw kind) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.uniform();
    return static_cast<float>(kind == Draw::normal ? sum : sum * sum * sum * 0.3);
}

std::vector<float> draw_row(std::size_t count, Draw kind, std::uint64_t seed) {
    base::Random random(seed);
    std::vector<float> row(count);
    for (float& value : row) value = 0.05F * draw(random, kind);
    return row;
}

// Of columns of which few matter much.
std::vector<float> draw_weights(std::size_t count, std::uint64_t seed) {
    base::Random random(seed);
    std::vector<float> weights(count);
    for (float& weight : weights) weight = static_cast<float>(std::exp(6 * random.uniform()));
    return weights;
}

struct Stored {
    std::vector<std::byte> bytes;
    std::vector<float> values;
};
Stored stored(TensorType type, std::vector<std::byte> bytes) {
    const TensorTypeInfo& info = *tensor_type_info(type);
    std::vector<float> values(bytes.size() / static_cast<std::size_t>(info.block_bytes) *
                              static_cast<std::size_t>(info.block_size));
    dequantize_row(type, bytes, values.data());
    return {std::move(bytes), std::move(values)};
}
std::vector<std::byte> room(TensorType type, std::size_t count) {
    const TensorTypeInfo& info = *tensor_type_info(type);
    return std::vector<std::byte>(count / static_cast<std::size_t>(info.block_size) *
                                  static_cast<std::size_t>(info.block_bytes));
}
Stored search(TensorType type, const std::vector<float>& row, const std::vector<float>& weights) {
    std::vector<std::byte> bytes = room(type, row.size());
    quant::search_row(type, row, weights, bytes.data());
    return stored(type, std::move(bytes));
}
Stored plain(TensorType type, const std::vector<float>& row) {
    std::vector<std::byte> bytes = room(type, row.size());
    quantize_row(type, row, bytes.data());
    return stored(type, std::move(bytes));
}

double error(const std::vector<float>& row, const std::vector<float>& weights,
             const std::vector<float>& values) {
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
        sum += double{weights[i]} * std::pow(double{row[i]} - double{values[i]}, 2);
    return sum;
}

const char* name_of(TensorType type) {
    return tensor_type_info(type)->name;
}

TEST(Searched, ErrsLessThanPlainRoundingInEveryBlock) {
    for (const TensorType type : kSearched) {
        const auto size = static_cast<std::size_t>(tensor_type_info(type)->block_size);
        for (const Draw kind : {Draw::normal, Draw::heavy_tailed}) {
            double of_plain = 0;
            double of_search = 0;
            for (std::uint64_t seed = 0; seed < 8; ++seed) {
                const std::vector<float> row = draw_row(size, kind, seed);
                const std::vector<float> weights = draw_weights(size, seed + 1000);
                const double rounded = error(row, weights, plain(type, row).values);
                const double searched = error(row, weights, search(type, row, weights).values);
                EXPECT_LE(searched, rounded) << name_of(type) << " seed " << seed;
                of_plain += rounded;
                of_search += searched;
            }
            RecordProperty(std::string(name_of(type)) + (kind == Draw::normal ? "" : "_heavy"),
                           std::to_string(of_search / of_plain));
            const double most = type == TensorType::q8_0 ? 0.99 : 0.85;
            EXPECT_LT(of_search, most * of_plain) << name_of(type);
        }
    }
}

TEST(Searched, SaysTheErrorOfWhatItWrites) {
    for (const TensorType type : kSearched) {
        const std::vector<float> row = draw_row(512, Draw::normal, 3);
        const std::vector<float> weights = draw_weights(512, 4);
        std::vector<std::byte> bytes = room(type, row.size());
        const double said = quant::search_row(type, row, weights, bytes.data());
        const double is = error(row, weights, stored(type, bytes).values);
        EXPECT_NEAR(said, is, 1e-9 * is) << name_of(type);
    }
}

TEST(Searched, WeightsBringErrorToWhereItMattersLess) {
    for (const TensorType type : kSearched) {
        const std::vector<float> ones(2048, 1.0F);
        const std::vector<float> row = draw_row(2048, Draw::normal, 5);
        const std::vector<float> weights = draw_weights(2048, 6);
        const Stored with = search(type, row, weights);
        const Stored without = search(type, row, ones);
        EXPECT_LT(error(row, weights, with.values), error(row, weights, without.values))
            << name_of(type);
        EXPECT_LE(error(row, ones, without.values), error(row, ones, with.values)) << name_of(type);
    }
}

TEST(Searched, WeightsCountOnlyInProportion) {
    for (const TensorType type : kSearched) {
        const std::vector<float> row = draw_row(256, Draw::heavy_tailed, 7);
        std::vector<float> weights = draw_weights(256, 8);
        const Stored once = search(type, row, weights);
        for (float& weight : weights) weight *= 1024.0F;
        EXPECT_EQ(search(type, row, weights).bytes, once.bytes) << name_of(type);
    }
}

TEST(Searched, ZerosAndConstantsAndWeightlessRowsAreStored) {
    for (const TensorType type : kSearched) {
        const std::vector<float> ones(256, 1.0F);
        const std::vector<float> zeros(256, 0.0F);
        EXPECT_EQ(search(type, zeros, ones).values, zeros) << name_of(type);
        EXPECT_EQ(search(type, zeros, zeros).values, zeros) << name_of(type);
        for (const float value : {0.75F, -0.75F}) {
            const std::vector<float> row(256, value);
            for (const float got : search(type, row, ones).values)
                EXPECT_NEAR(got, value, 0.04) << name_of(type);
        }
        const std::vector<float> row = draw_row(256, Draw::normal, 9);
        for (const float got : search(type, row, zeros).values) {
            EXPECT_TRUE(std::isfinite(got)) << name_of(type);
        }
    }
}

TEST(Searched, VeryLargeAndVerySmallValuesStayFinite) {
    for (const TensorType type : kSearched) {
        for (const float factor : {1e-30F, 1e-7F, 1e4F}) {
            std::vector<float> row = draw_row(256, Draw::heavy_tailed, 10);
            for (float& value : row) value *= factor;
            const std::vector<float> weights = draw_weights(256, 11);
            const Stored got = search(type, row, weights);
            for (const float value : got.values) EXPECT_TRUE(std::isfinite(value)) << name_of(type);
            if (factor > 1) {
                EXPECT_LT(error(row, weights, got.values),
                          0.3 * error(row, weights, std::vector<float>(256)));
            }
        }
    }
}

// ---- against all scales -----------------------------------------------------------------------

template <int kSize, typename Levels>
double least_error(const Levels& levels, const float* x, const float* w) {
    // Of all that tell levels apart: between two scales at which no element changes its level, the
    // best one for these levels.
    float greatest = 0;
    for (int i = 0; i < kSize; ++i) greatest = std::max(greatest, std::fabs(x[i]));
    double least = std::numeric_limits<double>::infinity();
    constexpr int kScales = 20000;
    for (int n = -kScales; n <= kScales; ++n) {
        const float inverse = static_cast<float>(n) / kScales * 6 * levels.end() / greatest;
        const quant::ScaleFit fit = quant::fit_levels<kSize>(levels, x, w, inverse);
        least = std::min(least,
                         static_cast<double>(quant::scale_error<kSize>(levels, x, w, fit.scale)));
    }
    return least;
}

template <typename Levels>
void expect_near_best(const Levels& levels) {
    double found = 0;
    double best = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const Draw kind = seed % 2 == 0 ? Draw::normal : Draw::heavy_tailed;
        const std::vector<float> row = draw_row(16, kind, seed);
        const std::vector<float> weights = draw_weights(16, seed + 100);
        const float scale = quant::search_scale<16>(levels, row.data(), weights.data());
        const double error = quant::scale_error<16>(levels, row.data(), weights.data(), scale);
        const double least = least_error<16>(levels, row.data(), weights.data());
        EXPECT_LE(error, 4 * least + 1e-9) << "levels to " << levels.end() << " seed " << seed;
        found += error;
        best += least;
    }
    EXPECT_LE(found, 1.15 * best) << "levels to " << levels.end();
}

TEST(SearchScale, IsNearlyTheBestOfAllScales) {
    expect_near_best(quant::WholeLevels{-4, 3});
    expect_near_best(quant::WholeLevels{-8, 7});
    expect_near_best(quant::WholeLevels{-16, 15});
    expect_near_best(quant::WholeLevels{-32, 31});
    expect_near_best(quant::UnevenLevels{});
}

TEST(SearchLine, IsNearlyTheBestOfAllLines) {
    for (const float top : {3.0F, 15.0F}) {
        double found = 0;
        double best = 0;
        for (std::uint64_t seed = 0; seed < 12; ++seed) {
            const Draw kind = seed % 2 == 0 ? Draw::normal : Draw::heavy_tailed;
            const std::vector<float> row = draw_row(16, kind, seed);
            const std::vector<float> weights = draw_weights(16, seed + 200);
            const auto [low, high] = std::minmax_element(row.begin(), row.end());
            double least = std::numeric_limits<double>::infinity();
            constexpr int kParts = 120;
            for (int a = 0; a < kParts; ++a) {
                for (int b = 1; b + a <= kParts; ++b) {
                    const float range = (*high - *low) / kParts;
                    const quant::Line line{range * static_cast<float>(b) / top,
                                           *low + range * static_cast<float>(a)};
                    const quant::Line refit =
                        quant::refit_line<16>(row.data(), weights.data(), line, top, false);
                    least = std::min<double>(
                        least, quant::line_error<16>(row.data(), weights.data(), refit, top));
                }
            }
            const quant::Line line = quant::search_line<16>(row.data(), weights.data(), top, false);
            found += quant::line_error<16>(row.data(), weights.data(), line, top);
            best += least;
        }
        EXPECT_LE(found, 1.2 * best) << "levels to " << top;
    }
}

TEST(RefitLine, IsTheLeastSquaresLineOfTheLevels) {
    // Levels 0 to 3 of a line, exactly.
    std::vector<float> row(16);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = 0.25F * static_cast<float>(i % 4) - 0.5F;
    const std::vector<float> weights = draw_weights(16, 1);
    const quant::Line line =
        quant::refit_line<16>(row.data(), weights.data(), {0.27F, -0.53F}, 3, false);
    EXPECT_NEAR(line.step, 0.25, 1e-5);
    EXPECT_NEAR(line.start, -0.5, 1e-5);
    // A start above zero is refused where there is none: then it is zero, and the step follows.
    for (float& value : row) value += 1.5F;
    const quant::Line above =
        quant::refit_line<16>(row.data(), weights.data(), {0.6F, 0.0F}, 3, true);
    EXPECT_EQ(above.start, 0.0F);
}

}  // namespace
}  // namespace helix::model::searched_test
