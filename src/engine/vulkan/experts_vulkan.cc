#include "engine/ops/experts.h"

#include <utility>

#include "base/check.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

// expert_matmul is in matmul_vulkan.cc.

namespace helix::engine {

// The host never learns the routing: it is sorted on the device.
void VulkanDevice::route_rows(const ops::RouteRows& op) {
    CHECK(op.n_groups == 1 || op.bias != nullptr);
    auto& r = static_cast<VulkanRouting&>(op.routing);
    r.rows = op.rows;
    r.n_experts = op.n_experts;
    r.n_used = op.n_used;
    VulkanCommands::Operator record(*commands_);
    if (r.part.slice().bytes < r.bytes()) {
        auto part = buffers_->take(r.bytes());
        if (!part.ok()) return record.fail(part.error());
        r.part = std::move(*part);
    }
    struct {
        VkDeviceAddress scores, bias, chosen, weights, expert_factors;
        std::uint32_t rows, n_experts, n_used, normalise;
        float factor;
        std::uint32_t sigmoid, has_bias, has_factors, n_groups, n_groups_used, unused;
    } const route{vulkan(op.scores).address(),
                  op.bias == nullptr ? 0 : vulkan(*op.bias).address(),
                  r.chosen(),
                  r.chosen_weight(),
                  op.expert_factors == nullptr ? 0 : vulkan(*op.expert_factors).address(),
                  word(op.rows),
                  word(op.n_experts),
                  word(op.n_used),
                  op.normalise ? 1U : 0U,
                  op.factor,
                  op.sigmoid ? 1U : 0U,
                  op.bias != nullptr ? 1U : 0U,
                  op.expert_factors != nullptr ? 1U : 0U,
                  word(op.n_groups),
                  word(op.n_groups_used),
                  0};
    record.dispatch(shaders::route_rows, route, groups_for(op.rows, 32));
    record.barrier();
    struct {
        VkDeviceAddress chosen, visit_of, visit_expert, first_visit;
        std::uint32_t visits, n_experts;
    } const collect{r.chosen(),      r.visit_of(),     r.visit_expert(),
                    r.first_visit(), word(r.visits()), word(op.n_experts)};
    record.dispatch(shaders::collect_visits, collect, {});
}

void VulkanDevice::gather_visits(const ops::GatherVisits& op) {
    const VulkanRouting& r = vulkan(op.routing);
    struct {
        VkDeviceAddress x, y, weights, visit_of;
        std::uint32_t visits, width, n_used, weighted;
    } const push{vulkan(op.x).address(), vulkan(op.y).address(), r.chosen_weight(),
                 r.visit_of(),           word(r.visits()),       word(op.width),
                 word(r.n_used),         op.weighted ? 1U : 0U};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::gather_visits, push, groups_for(r.visits()));
}

void VulkanDevice::add_visits(const ops::AddVisits& op) {
    const VulkanRouting& r = vulkan(op.routing);
    struct {
        VkDeviceAddress x, y, weights, visit_of;
        std::uint32_t rows, width, n_used, replace, weighted, unused;
    } const push{vulkan(op.x).address(), vulkan(op.y).address(),
                 r.chosen_weight(),      r.visit_of(),
                 word(r.rows),           word(op.width),
                 word(r.n_used),         op.replace ? 1U : 0U,
                 op.weighted ? 1U : 0U,  0};
    VulkanCommands::Operator(*commands_).dispatch(shaders::add_visits, push, groups_for(r.rows));
}

}  // namespace helix::engine
