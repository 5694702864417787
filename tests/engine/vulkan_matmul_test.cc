// Matrices of every format on a Vulkan device: the CPU device's bits, with the device's integer dot
// product and without, and on its matrix cores.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/effort.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/vulkan/matmul_shaders.h"
#include "model/quant/codes.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_matmul_test {
namespace {

struct Shape {
    std::int64_t rows, outputs, cols;
};
// Rows around the sizes of tiles; columns of one segment, of several, and of several with a short
// last one; the last is more segments than a workgroup takes at a time.
constexpr Shape kShapes[] = {{1, 16, 256}, {2, 5, 32}, {7, 33, 800}, {8, 40, 512}, {1, 3, 4608}};
// Tiles in shared memory, full and not: of 16 rows, of 64, and enough of them for four panels each.
constexpr Shape kTiledShapes[] = {{9, 17, 96},  {16, 32, 544},  {63, 20, 256},  {64, 16, 800},
                                  {65, 50, 32}, {100, 40, 288}, {200, 2037, 64}};
// Of 32 rows, and of two panels.
constexpr Shape kMoreTiledShapes[] = {{17, 33, 288}, {130, 1367, 32}};
// So many outputs that a workgroup on matrix cores has two, four and eight panels, of few rows and
// of many.
constexpr Shape kWideShapes[] = {
    {40, 4104, 96}, {70, 8200, 64}, {16, 16'400, 32}, {130, 8200, 288}};

std::unique_ptr<Matrix> make_matrix(Device& device, const MatrixShape& shape,
                                    std::span<const std::byte> bytes) {
    auto made = device.make_matrix(shape, bytes);
    CHECK(made.ok());
    return std::move(*made);
}

// Without matrix cores: these have tests of their own.
class VulkanMatmul : public VulkanTest, public testing::WithParamInterface<TensorType> {
  protected:
    void SetUp() override {
        VulkanTest::SetUp();
        if (vulkan_ != nullptr) vulkan().use_matrix_cores(false);
    }
    VulkanDevice& vulkan() { return static_cast<VulkanDevice&>(*vulkan_); }
    // With what the CPU device computes.
    void compare(std::span<const Shape> shapes);
};

class VulkanMatmulOfSome : public VulkanMatmul {};

void VulkanMatmul::compare(std::span<const Shape> shapes) {
    std::uint64_t seed = 811;
    for (const Shape& shape : shapes) {
        const proof::MatmulCase c{GetParam(), shape.rows, shape.outputs, shape.cols};
        const auto right = proof::matmul_values(*cpu_, c, ++seed);
        for (const bool dot : {true, false}) {
            vulkan().use_integer_dot(dot);
            EXPECT_TRUE(same_values(proof::matmul_values(*vulkan_, c, seed), right))
                << c.rows << " x " << c.outputs << " x " << c.cols << ", dot " << dot;
        }
    }
}

// Formats of codes differ from each other in what a block is, and a device of software is long in
// compiling what tiles of each size are multiplied by: one size stands for all.
bool has_codes(TensorType type) {
    return model::quant::find_decoder(type) != nullptr;
}

TEST_P(VulkanMatmul, GivesTheBitsOfTheCpu) {
    const std::span<const Shape> shapes(kShapes);
    compare(has_codes(GetParam()) ? shapes.subspan(2, 1) : shapes);
}

TEST_P(VulkanMatmul, GivesTheBitsOfTheCpuInTiles) {
    const std::span<const Shape> shapes(kTiledShapes);
    compare(has_codes(GetParam()) ? shapes.subspan(5, 1) : shapes);
}

TEST_P(VulkanMatmulOfSome, GivesTheBitsOfTheCpuInMoreTiles) {
    compare(kMoreTiledShapes);
}

// Blocks of zeros, of tiny numbers, with an infinity and with a NaN.
TEST_P(VulkanMatmulOfSome, TakesActivationsThatAreNoNumbers) {
    for (const std::int64_t rows : {4, 20}) {
        const proof::MatmulCase c{GetParam(), rows, 16, 256, true};
        EXPECT_TRUE(same_values(proof::matmul_values(*vulkan_, c, 911),
                                proof::matmul_values(*cpu_, c, 911)))
            << rows << " rows";
    }
}

TEST_P(VulkanMatmulOfSome, MultipliesVisitsByTheirExperts) {
    for (const std::int64_t rows : {1, 6, 31, 90}) {
        const proof::ExpertsCase c{GetParam(), rows, 5, 2, 19, 256};
        EXPECT_TRUE(same_values(proof::experts_values(*vulkan_, c, 1011),
                                proof::experts_values(*cpu_, c, 1011)))
            << rows << " rows";
    }
}

class VulkanMatrixCores : public VulkanTest {
  protected:
    void SetUp() override {
        VulkanTest::SetUp();
        if (vulkan_ == nullptr) return;
        cores_ = static_cast<VulkanDevice&>(*vulkan_).proof().matrix_cores;
        if (cores_ != FeatureProof::proven)
            GTEST_SKIP() << "the device's matrix cores: " << to_string(cores_);
    }
    // What the device computes on its matrix cores and without them with what the CPU device
    // computes.
    void compare(const std::function<proof::Values(Device&)>& compute, const std::string& what) {
        const proof::Values right = compute(*cpu_);
        for (const bool cores : {true, false}) {
            static_cast<VulkanDevice&>(*vulkan_).use_matrix_cores(cores);
            EXPECT_TRUE(same_values(compute(*vulkan_), right))
                << what << (cores ? ", on matrix cores" : ", without matrix cores");
        }
    }
    void compare(TensorType type, std::span<const Shape> shapes, bool hostile = false) {
        std::uint64_t seed = 1211;
        for (const Shape& shape : shapes) {
            const proof::MatmulCase c{type, shape.rows, shape.outputs, shape.cols, hostile};
            ++seed;
            compare([&](Device& device) { return proof::matmul_values(device, c, seed); },
                    fmt::format("{} {} x {} x {}", model::tensor_type_info(type)->name, c.rows,
                                c.outputs, c.cols));
        }
    }
    FeatureProof cores_ = FeatureProof::none;
};

TEST_F(VulkanMatrixCores, GiveTheBitsOfTheCpuInEveryFormat) {
    for (const TensorType type : kAllTypes) {
        if (matrix_matmul_shader(type) == nullptr) continue;
        compare(type, kTiledShapes);
        compare(type, kMoreTiledShapes);
    }
}

TEST_F(VulkanMatrixCores, GiveTheBitsOfTheCpuInTilesOfSeveralPanels) {
    for (const TensorType type : {TensorType::q8_0, TensorType::q4_k, TensorType::q6_k})
        compare(type, kWideShapes);
}

// Blocks of zeros, of tiny numbers, with an infinity and with a NaN.
TEST_F(VulkanMatrixCores, TakeActivationsThatAreNoNumbers) {
    for (const TensorType type : {TensorType::q8_0, TensorType::q4_k, TensorType::q6_k})
        compare(type, std::vector<Shape>{{20, 16, 256}, {100, 40, 288}}, true);
}

// In tiles that are not full.
TEST_F(VulkanMatrixCores, MultiplyVisitsByTheirExperts) {
    for (const TensorType type : {TensorType::q8_0, TensorType::q4_k, TensorType::q6_k}) {
        for (const std::int64_t rows : {25, 31, 90, 300}) {
            const proof::ExpertsCase c{type, rows, 5, 2, 19, 256};
            compare(
                [&](Device& device) { return proof::experts_values(device, c, 1311); },
                fmt::format("{}, visits of {} rows", model::tensor_type_info(type)->name, rows));
        }
    }
}

// One for each way of scaling, and one with factors.
const std::vector<TensorType> kSomeTypes = {TensorType::bf16, TensorType::q8_0,  TensorType::q4_k,
                                            TensorType::q6_k, TensorType::nvfp4, TensorType::fp8};

// No sanitizer sees what a device computes, and what the machine does for it differs little between
// formats.
std::vector<TensorType> types_to_run(std::span<const TensorType> types) {
    if (kSanitized) return {TensorType::q8_0, TensorType::q4_k};
    return {types.begin(), types.end()};
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanMatmul, testing::ValuesIn(types_to_run(kAllTypes)),
                         [](const auto& type) {
                             return std::string(model::tensor_type_info(type.param)->name);
                         });

INSTANTIATE_TEST_SUITE_P(Types, VulkanMatmulOfSome, testing::ValuesIn(types_to_run(kSomeTypes)),
                         [](const auto& type) {
                             return std::string(model::tensor_type_info(type.param)->name);
                         });

using VulkanMatrices = VulkanTest;

TEST_F(VulkanMatrices, RefuseWhatIsNoMatrix) {
    const std::vector<std::byte> bytes(34);
    EXPECT_FALSE(vulkan_->make_matrix({TensorType::q8_0, 1, 1, 33}, bytes).ok());
    EXPECT_FALSE(vulkan_->make_matrix({TensorType::q8_0, 1, 2, 32}, bytes).ok());
    EXPECT_TRUE(vulkan_->make_matrix({TensorType::q8_0, 1, 1, 32}, bytes).ok());
}

// Columns of floats need not fill what a lane reads at once.
TEST_F(VulkanMatrices, OfFloatsHaveAnyNumberOfColumns) {
    base::Random random(1111);
    for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
        for (const Shape& shape : {Shape{3, 18, 1}, Shape{3, 18, 7}, Shape{3, 18, 67},
                                   Shape{3, 18, 129}, Shape{10, 18, 7}, Shape{19, 18, 131}}) {
            const std::int64_t cols = shape.cols;
            const auto w = random_matrix(random, type, 18, base::size_of(cols));
            const auto x = random_floats(random, base::size_of(shape.rows * cols));
            const auto on = [&](Device& device) {
                const auto matrix = make_matrix(device, {type, 1, 18, cols}, w.bytes);
                const auto to = poisoned(device, shape.rows * 18);
                const ops::Projection one[] = {{*matrix, *to, false}};
                device.matmul({*make(device, x), shape.rows, one});
                return values_of(device, *to);
            };
            EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_)))
                << shape.rows << " rows, " << cols << " columns";
        }
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_matmul_test
