#include <gtest/gtest.h>

#include "base/check.h"
#include "base/effort.h"
#include "engine/cpu/matmul_cpu.h"
#include "engine/kernels/amx_support.h"
#include "engine/kernels/kernels_includes.h"
#include "engine/kernels/tile_config.h"
#include "op_helpers.h"

#define HELIX_UNROLL  // quick to compile, and slow

namespace helix::engine::ops {
namespace tiles_portable {
namespace {
#include "engine/kernels/simd_portable.h"

#include "tile_kernels.h"
}  // namespace
}  // namespace tiles_portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#endif
namespace tiles_avx512 {
namespace {
#include "engine/kernels/simd_avx512.h"

#include "tile_kernels.h"
}  // namespace
}  // namespace tiles_avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#pragma GCC diagnostic pop
#endif
#endif

namespace test {
namespace {

using engine::test::kAllTypes;
using engine::test::random_floats;
using engine::test::random_matrix;
using engine::test::same_bits;

struct TileTable {
    Kernels kernels;
    const std::int64_t* products;
};

// Every table of tile kernels that this machine can run: emulated tiles beside plain C++; beside
// the vector instructions of the real kernel, where there are any; and the real tiles.
std::vector<TileTable> tile_tables() {
    std::vector<TileTable> tables;
    tables.push_back(
        {tiles_portable::make_tile_table<tiles_portable::EmulatedTiles, portable_kernels>(
             Isa::portable),
         &tiles_portable::EmulatedTiles::products});
#if defined(__x86_64__)
    if (supported(Isa::avx512)) {
        tables.push_back(
            {tiles_avx512::make_tile_table<tiles_avx512::EmulatedTiles, avx512_kernels>(
                 Isa::avx512),
             &tiles_avx512::EmulatedTiles::products});
    }
#endif
    if (supported(Isa::amx)) tables.push_back({kernels(Isa::amx), nullptr});
    return tables;
}

std::vector<float> product(const Kernels& kernels, ThreadPool& pool, const PackedMatrix& matrix,
                           std::span<const float> x, std::int64_t rows) {
    // Something is there already, and is added to.
    std::vector<float> y(static_cast<std::size_t>(rows * matrix.rows()), 0.25F);
    MatmulRows input;
    input.set(x.data(), rows, matrix.cols());
    const MatmulJob job[] = {{&matrix, {y.data(), matrix.rows(), true}}};
    matmul(kernels, pool, input, job);
    return y;
}

class TileMatmul : public testing::TestWithParam<model::TensorType> {};

// Row counts around every border: of a tile, of the rest that is worth one more, of what fits the
// cache. Columns: less than a chunk, whole chunks, one more; blocks that do not fill four tiles.
TEST_P(TileMatmul, GivesTheBitsOfThePortableKernel) {
    base::Random random(41);
    ThreadPool pool(2);
    for (const std::int64_t cols : {256, 1024, 1280, 2304}) {
        const auto w = random_matrix(random, GetParam(), 37, static_cast<std::size_t>(cols));
        const auto matrix = PackedMatrix::pack(GetParam(), 37, cols, w.bytes, pool);
        ASSERT_TRUE(matrix.ok()) << matrix.error().message;
        for (const std::int64_t rows : {1, 15, 16, 17, 21, 22, 31, 32, 38, 47}) {
            auto x = random_floats(random, static_cast<std::size_t>(rows * cols), 2.0);
            x[static_cast<std::size_t>((rows - 1) * cols)] =
                INFINITY;  // a block that is not a number
            const auto expected = product(portable_kernels(), pool, *matrix, x, rows);
            for (const TileTable& table : tile_tables()) {
                const std::int64_t before = table.products == nullptr ? 0 : *table.products;
                const auto y = product(table.kernels, pool, *matrix, x, rows);
                ASSERT_TRUE(same_bits(y, expected))
                    << rows << " rows of " << cols << " beside " << to_string(table.kernels.isa);
                if (table.products != nullptr) {
                    EXPECT_EQ(*table.products > before, rows >= 16);
                }
            }
        }
    }
}

std::string type_name(const testing::TestParamInfo<model::TensorType>& info) {
    return model::tensor_type_info(info.param)->name;
}
std::vector<model::TensorType> types() {
    using enum model::TensorType;
    // One of each kind of blocks.
    if (kSanitized) return {q8_0, q4_1, q2_k, q3_k, iq3_s, iq2_xs, int4};
    return {q8_0, q4_0,   q4_1,  q5_0, q5_1,   q3_k,  q4_k,   q5_k,
            q6_k, iq4_nl, mxfp4, q2_k, iq4_xs, iq3_s, iq2_xs, int4};
}
INSTANTIATE_TEST_SUITE_P(Types, TileMatmul, testing::ValuesIn(types()), type_name);

// What AMX has to pass before it is used.
TEST(TileSelfCheck, AcceptsRightTilesAndRefusesTilesThatTakeBytesForUnsigned) {
    for (const TileTable& table : tile_tables())
        EXPECT_TRUE(same_products(table.kernels, portable_kernels()));
    EXPECT_FALSE(same_products(
        tiles_portable::make_tile_table<tiles_portable::UnsignedTiles, portable_kernels>(
            Isa::portable),
        portable_kernels()));
}

}  // namespace
}  // namespace test
}  // namespace helix::engine::ops
