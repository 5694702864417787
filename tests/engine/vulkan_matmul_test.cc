// Matrices of every format on a Vulkan device: the CPU device's bits, with the device's integer dot
// product and without.

#include <vector>

#include "engine/kernels/packed_matrix.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_matmul_test {
namespace {

// Rows around the sizes of tiles; columns of one segment, of several, and of several with a short
// last one; the last is more segments than a workgroup takes at a time.
std::vector<proof::MatmulCase> cases_of(TensorType type) {
    return {{type, 1, 16, 256}, {type, 2, 5, 32},    {type, 7, 33, 800}, {type, 8, 40, 512},
            {type, 9, 17, 96},  {type, 33, 20, 288}, {type, 1, 3, 4608}};
}

std::unique_ptr<Matrix> make_matrix(Device& device, const MatrixShape& shape,
                                    std::span<const std::byte> bytes) {
    auto made = device.make_matrix(shape, bytes);
    CHECK(made.ok());
    return std::move(*made);
}

class VulkanMatmul : public VulkanTest, public testing::WithParamInterface<TensorType> {
  protected:
    VulkanDevice& vulkan() { return static_cast<VulkanDevice&>(*vulkan_); }
};

class VulkanMatmulOfSome : public VulkanMatmul {};

TEST_P(VulkanMatmul, GivesTheBitsOfTheCpu) {
    std::uint64_t seed = 811;
    for (const proof::MatmulCase& c : cases_of(GetParam())) {
        const auto right = proof::matmul_values(*cpu_, c, ++seed);
        for (const bool dot : {true, false}) {
            vulkan().use_integer_dot(dot);
            EXPECT_TRUE(same_values(proof::matmul_values(*vulkan_, c, seed), right))
                << c.rows << " x " << c.outputs << " x " << c.cols << ", dot " << dot;
        }
    }
}

TEST_P(VulkanMatmulOfSome, TakesActivationsThatAreNoNumbers) {
    const proof::MatmulCase c{GetParam(), 4, 16, 256, true};
    EXPECT_TRUE(
        same_values(proof::matmul_values(*vulkan_, c, 911), proof::matmul_values(*cpu_, c, 911)));
}

TEST_P(VulkanMatmulOfSome, MultipliesVisitsByTheirExperts) {
    for (const std::int64_t rows : {1, 6, 31}) {
        const proof::ExpertsCase c{GetParam(), rows, 5, 2, 19, 256};
        EXPECT_TRUE(same_values(proof::experts_values(*vulkan_, c, 1011),
                                proof::experts_values(*cpu_, c, 1011)))
            << rows << " rows";
    }
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanMatmul, testing::ValuesIn(kAllTypes), [](const auto& type) {
    return std::string(model::tensor_type_info(type.param)->name);
});

// One for each way of scaling.
INSTANTIATE_TEST_SUITE_P(Types, VulkanMatmulOfSome,
                         testing::Values(TensorType::bf16, TensorType::q8_0, TensorType::q4_k,
                                         TensorType::q6_k),
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
        for (const std::int64_t cols : {1, 7, 67, 129}) {
            const auto w = random_matrix(random, type, 18, base::size_of(cols));
            const auto x = random_floats(random, base::size_of(3 * cols));
            const auto on = [&](Device& device) {
                const auto matrix = make_matrix(device, {type, 1, 18, cols}, w.bytes);
                const auto to = poisoned(device, std::int64_t{3} * 18);
                const ops::Projection one[] = {{*matrix, *to, false}};
                device.matmul({*make(device, x), 3, one});
                return values_of(device, *to);
            };
            EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_))) << cols << " columns";
        }
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_matmul_test
