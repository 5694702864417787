// Attention over pages of every type on a Vulkan device: the CPU device's bits.

#include <numeric>
#include <vector>

#include "engine/ops/kv_type.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_attention_test {
namespace {

std::vector<proof::AttentionCase> cases_of(ops::KvType type) {
    return {
        {type, 1, 1, 8, 4, 1, 1},             // one position
        {type, 4, 2, 16, 16, 37, 37},         // a prompt
        {type, 6, 2, 20, 5, 130, 1},          // over two chunks, taken apart
        {type, 3, 1, 64, 16, 300, 2},         // over three
        {type, 8, 4, 24, 16, 270, 40},        // too many rows to take chunks apart
        {type, 4, 4, 32, 16, 290, 3, 100},    // a window that begins within a chunk
        {type, 2, 1, 136, 32, 150, 70, 130},  // more dimensions than lanes
    };
}

class VulkanAttention : public VulkanTest, public testing::WithParamInterface<ops::KvType> {};

TEST_P(VulkanAttention, GivesTheBitsOfTheCpu) {
    for (const proof::AttentionCase& c : cases_of(GetParam())) {
        EXPECT_TRUE(same_values(proof::attention_values(*vulkan_, c, 77),
                                proof::attention_values(*cpu_, c, 77)))
            << c.positions << " positions, " << c.rows << " rows, dimension " << c.head_dim;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanAttention,
                         testing::Values(ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                         ops::KvType::q8),
                         [](const auto& type) { return std::string(ops::to_string(type.param)); });

}  // namespace
}  // namespace helix::engine::test::vulkan_attention_test
