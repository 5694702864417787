#include "engine/devices.h"

#include <memory>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/processor.h"
#include "engine/cpu/cpu_device.h"
#include "engine/measure/timing.h"
#include "engine/vulkan/dot_peak.h"
#include "engine/vulkan/vulkan_context.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_instance.h"
#include "engine/vulkan/vulkan_proof.h"

namespace helix::engine {
namespace {

base::Result<VulkanProof> open_and_prove(const std::shared_ptr<const VulkanInstance>& instance,
                                         const VulkanDeviceInfo& info) {
    TRY(const auto context, VulkanContext::create(instance, info));
    return prove(context);
}

VulkanDescription description(const std::shared_ptr<const VulkanInstance>& instance,
                              const VulkanDeviceInfo& info) {
    VulkanDescription d;
    d.index = info.index;
    d.name = info.name;
    d.type = info.type;
    d.driver = info.driver;
    d.uuid = info.uuid;
    d.memory_bytes = info.memory_bytes;
    d.software = info.software;
    const auto proof = open_and_prove(instance, info);
    if (!proof.ok()) {
        d.refused = proof.error().message;
        return d;
    }
    d.fused_fma = proof->fused_fma;
    d.flushes_subnormals = proof->flushes_subnormals;
    d.integer_dot = proof->integer_dot;
    d.matrix_cores = proof->matrix_cores;
    return d;
}

// As many rounds as a dispatch of some milliseconds has.
base::Result<measure::Speed> measure_dot_peak(VulkanDotPeak& peak, double budget_s) {
    constexpr std::uint32_t kFewRounds = 4;
    constexpr std::uint32_t kMostRounds = 1 << 16;
    constexpr double kDispatch_s = 0.005;
    TRY_VOID(peak.run(1, kFewRounds));
    TRY_VOID(peak.check(kFewRounds));
    for (std::uint32_t rounds = kFewRounds;; rounds *= 2) {
        TRY(const measure::Timing tried,
            measure::time_calls(0, [&](std::int64_t n) { return peak.run(n, rounds); }));
        if (tried.seconds < kDispatch_s && rounds < kMostRounds) continue;
        TRY(const measure::Timing timing,
            measure::time_calls(budget_s, [&](std::int64_t n) { return peak.run(n, rounds); }));
        return measure::Speed{VulkanDotPeak::operations(rounds) / timing.seconds, timing};
    }
}

}  // namespace

VulkanList list_vulkan_devices() {
    VulkanList list;
    const auto instance = VulkanInstance::create();
    if (!instance.ok()) {
        list.none = instance.error().message;
        return list;
    }
    for (const VulkanDeviceInfo& info : (*instance)->devices()) {
        list.devices.push_back(description(*instance, info));
    }
    if (list.devices.empty()) list.none = "this machine has no Vulkan driver";
    return list;
}

const VulkanDescription* best_device(const VulkanList& list) {
    const VulkanDescription* best = nullptr;
    for (const VulkanDescription& d : list.devices) {
        if (d.software || !d.refused.empty()) continue;
        if (best == nullptr || (d.type == "discrete GPU" && best->type != "discrete GPU"))
            best = &d;
    }
    return best;
}

NamedDevice cpu_device(std::optional<ops::Isa> isa) {
    NamedDevice cpu;
    cpu.name = "cpu";
    cpu.type = "CPU";
    const int threads = base::usable_threads();
    const std::string processor = base::processor_name();
    cpu.device = fmt::format("{}{} {}, {}", processor.empty() ? "" : processor + ", ", threads,
                             threads == 1 ? "thread" : "threads",
                             ops::to_string(isa.value_or(ops::best_isa())));
    cpu.open = [isa](const model::ModelConfig& config) {
        CpuDeviceOptions options;
        options.isa = isa;
        return CpuDevice::create(options, config);
    };
    return cpu;
}

base::Result<NamedDevice> vulkan_device(std::string_view device) {
    TRY(const auto instance, VulkanInstance::create());
    TRY(const VulkanDeviceInfo* info, instance->find(device));
    NamedDevice named;
    named.name = fmt::format("vulkan:{}", info->index);
    named.device = info->name;
    named.type = info->type;
    named.driver = info->driver;
    named.uuid = info->uuid;
    named.open = [instance, index = std::to_string(info->index)](const model::ModelConfig&) {
        return VulkanDevice::create(instance, {.device = index, .threads = 0});
    };
    named.dot_peak = [instance, info](double budget_s) -> base::Result<measure::Speed> {
        TRY(const auto peak, VulkanDotPeak::create(instance, *info));
        return measure_dot_peak(*peak, budget_s);
    };
    return named;
}

}  // namespace helix::engine
