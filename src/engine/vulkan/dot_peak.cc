#include "engine/vulkan/dot_peak.h"

#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "engine/vulkan/vulkan_proof.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

// As dot_peak.glsl has them.
constexpr std::uint32_t kPeakLanes = 128;
constexpr std::uint32_t kPeakChains = 8;
constexpr std::uint32_t kPeakGroups = 2048;
constexpr std::size_t kPeakResults = std::size_t{kPeakLanes} * kPeakGroups;

std::uint32_t right_result(std::uint32_t lane, std::uint32_t rounds) {
    const std::uint32_t by = lane * 0x9e3779b9U + 0x01020304U;
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < kPeakChains; ++i) {
        std::uint32_t sum = lane * kPeakChains + i + 1;
        for (std::uint32_t round = 0; round < rounds; ++round) sum += dot_of_words(sum, by);
        all ^= sum;
    }
    return all;
}

}  // namespace

base::Result<std::unique_ptr<VulkanDotPeak>> VulkanDotPeak::create(
    std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info) {
    std::unique_ptr<VulkanDotPeak> made(new VulkanDotPeak);
    TRY(made->context_, VulkanContext::create(std::move(instance), info));
    TRY_VOID(prove(made->context_));  // which finds out whether there is an integer dot product
    TRY(made->commands_, VulkanCommands::create(made->context_));
    const auto pool = std::make_shared<VulkanPool>(made->context_, 0);
    TRY(made->results_, pool->take(std::int64_t{4} * kPeakResults));
    return made;
}

base::Status VulkanDotPeak::run(std::int64_t dispatches, std::uint32_t rounds) {
    const Shader& shader =
        context_->integer_dot() ? shaders::dot_peak_integer : shaders::dot_peak_plain;
    struct {
        VkDeviceAddress results;
        std::uint32_t rounds;
    } const push{results_.slice().address(), rounds};
    for (std::int64_t i = 0; i < dispatches; ++i) {
        VulkanCommands::Operator record(*commands_);
        record.dispatch(shader, push, {kPeakGroups, 1, 1});
    }
    return commands_->wait();
}

double VulkanDotPeak::operations(std::uint32_t rounds) {
    constexpr double kOfDot = 8;
    return kOfDot * kPeakChains * static_cast<double>(kPeakResults) * rounds;
}

base::Status VulkanDotPeak::check(std::uint32_t rounds) {
    std::vector<std::uint32_t> results(kPeakResults);
    TRY_VOID(
        commands_->download(results_.slice(), std::as_writable_bytes(std::span(results)).data()));
    for (std::uint32_t lane = 0; lane < kPeakResults; lane += 1009) {
        if (results[lane] == right_result(lane, rounds)) continue;
        return base::Error{base::Errc::internal,
                           fmt::format("{} rounds of dot products in lane {} are {}, not {}",
                                       rounds, lane, results[lane], right_result(lane, rounds))};
    }
    return base::Ok{};
}

}  // namespace helix::engine
