#include "engine/vulkan/vulkan_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/machine.h"
#include "engine/vulkan/vulkan_kv_arena.h"
#include "engine/vulkan/vulkan_memory.h"
#include "engine/vulkan/vulkan_physical_device.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kBufferBlockBytes = 16 << 20;
constexpr std::int64_t kMatrixBlockBytes = 256 << 20;

}  // namespace

base::Result<std::unique_ptr<Device>> VulkanDevice::create(
    std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceOptions& options) {
    TRY(const VulkanDeviceInfo* info, instance->find(options.device));
    TRY(std::shared_ptr<VulkanContext> context, VulkanContext::create(std::move(instance), *info));
    if (options.most_bytes > 0) context->take_at_most(options.most_bytes);
    TRY(const VulkanProof proof, prove(context));
    const int threads = options.threads > 0 ? options.threads : base::usable_threads();
    std::unique_ptr<VulkanDevice> device(new VulkanDevice(context, proof, threads));
    TRY(device->commands_, VulkanCommands::create(context));
    return std::unique_ptr<Device>(std::move(device));
}

VulkanDevice::VulkanDevice(std::shared_ptr<VulkanContext> context, const VulkanProof& proof,
                           int threads)
    : context_(std::move(context)),
      proof_(proof),
      threads_(place_threads(threads, 1, {}, NumaNodes())),
      buffers_(std::make_shared<VulkanPool>(context_, kBufferBlockBytes)),
      matrices_(std::make_shared<VulkanPool>(context_, 0)) {}

VulkanDevice::~VulkanDevice() {
    if (commands_ != nullptr) commands_->drain();
}

std::int64_t VulkanDevice::memory_bytes() const {
    const VulkanDeviceInfo& info = context_->info();
    return offered_device_bytes(info, std::min(free_device_bytes(info), context_->room_bytes()));
}

base::Result<std::unique_ptr<Buffer>> VulkanDevice::make_buffer(std::int64_t floats) {
    TRY(auto part, buffers_->take(4 * floats));
    return std::unique_ptr<Buffer>(std::make_unique<VulkanBuffer>(floats, std::move(part)));
}

base::Result<std::unique_ptr<KvArena>> VulkanDevice::make_kv_arena(const ops::KvLayout& page,
                                                                   std::int64_t pages,
                                                                   std::int64_t swap_pages) {
    return VulkanKvArena::allocate(page, pages, swap_pages, commands_);
}

std::unique_ptr<Routing> VulkanDevice::make_routing() {
    return std::make_unique<VulkanRouting>();
}

// Blocks of what is expected, no larger than a few layers, so that what is dropped later is given
// back.
void VulkanDevice::expect_matrices(std::int64_t bytes) {
    matrices_->set_block_bytes(std::min(bytes, kMatrixBlockBytes));
    commands_->drain();
    matrices_->give_back_unused();
}

base::Status VulkanDevice::write(Buffer& buffer, std::int64_t first,
                                 std::span<const float> values) {
    CHECK(first >= 0 && first + std::ssize(values) <= buffer.size());
    VulkanCommands::Operator record(*commands_);
    record.upload(std::as_bytes(values), vulkan(buffer).part(first, std::ssize(values)), &threads_);
    return base::Ok{};
}

base::Result<std::span<const float>> VulkanDevice::read(const Buffer& buffer, std::int64_t first,
                                                        std::int64_t count) {
    CHECK(first >= 0 && first + count <= buffer.size());
    read_.resize(base::size_of(count));
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(read_));
    const base::Status copied =
        commands_->download(vulkan(buffer).part(first, count), bytes.data());
    TRY_VOID(commands_->wait());  // what went wrong since the last read
    if (!copied.ok()) return copied.error();
    return std::span<const float>(read_);
}

}  // namespace helix::engine
