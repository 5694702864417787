#include "engine/ops/swiglu.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kLanes = 128;  // of swiglu.comp
// From so many elements on a lane has four of them: with fewer there would be too few workgroups.
constexpr std::int64_t kManyFloats = 256 * 4 * kLanes;
// Its constant kActivation.
constexpr std::uint32_t kSilu = 0;
constexpr std::uint32_t kGelu = 1;
constexpr std::uint32_t kClamped = 2;
constexpr std::uint32_t kRelu = 3;
constexpr std::uint32_t kExactGelu = 4;
constexpr std::uint32_t kExactGeglu = 5;

}  // namespace

void VulkanDevice::gate(Buffer& gate, const Buffer& up, std::int64_t floats, std::int64_t width,
                        std::uint32_t activation) {
    struct {
        VkDeviceAddress gate, up, blocks;
        std::uint32_t count, unused;
    } const push{vulkan(gate).address(), vulkan(up).address(),
                 quantised_room_of_next(floats, width), word(floats), 0};
    const bool many = floats >= kManyFloats && floats % 4 == 0;
    const std::uint32_t constants[] = {push.blocks != 0 ? 1U : 0U, many ? 1U : 0U, activation};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::swiglu, push, groups_for(floats, many ? 4 * kLanes : kLanes), constants);
    if (push.blocks != 0) note_quantised(gate, floats);
}

void VulkanDevice::swiglu(const ops::Swiglu& op) {
    gate(op.gate, op.up, op.rows * op.width, op.width, kSilu);
}

void VulkanDevice::geglu(const ops::Geglu& op) {
    gate(op.gate, op.up, op.rows * op.width, op.width, op.exact ? kExactGeglu : kGelu);
}

void VulkanDevice::reglu(const ops::Reglu& op) {
    gate(op.gate, op.up, op.rows * op.width, op.width, kRelu);
}

void VulkanDevice::gelu(const ops::Gelu& op) {
    gate(op.x, op.x, op.rows * op.width, op.width, kExactGelu);
}

void VulkanDevice::clamped_swiglu(const ops::ClampedSwiglu& op) {
    gate(op.gate, op.up, op.rows * op.width, op.width, kClamped);
}

}  // namespace helix::engine
