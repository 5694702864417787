#include "engine/vulkan/vulkan_commands.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

constexpr std::size_t kBatches = 3;          // that are under way or open
constexpr std::size_t kKeptRecordings = 32;  // of a batch
// Of a batch: few enough that a device begins long before all layers are on the list.
constexpr std::int32_t kMostCommands = 128;
constexpr std::int64_t kStagingBytes = 4 << 20;  // of a batch
constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kCopiedBytes = 256 << 10;  // by a thread at a time

// With few sizes what is put in the next step lies where it did in this one.
std::int64_t rounded_up(std::int64_t bytes) {
    return std::max(kAlignment,
                    static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes))));
}

void copy_bytes(std::span<const std::byte> from, std::byte* to, ThreadPool* threads) {
    if (threads == nullptr) {
        std::copy(from.begin(), from.end(), to);
        return;
    }
    threads->run_pieces(std::ssize(from), kCopiedBytes, [&](std::int64_t begin, std::int64_t end) {
        std::copy(from.data() + begin, from.data() + end, to + begin);
    });
}

}  // namespace

base::Result<std::unique_ptr<VulkanCommands>> VulkanCommands::create(
    std::shared_ptr<VulkanContext> context) {
    std::unique_ptr<VulkanCommands> made(new VulkanCommands(std::move(context)));
    TRY(made->pool_, made->context_->make_command_pool());
    for (std::size_t i = 0; i < kBatches; ++i) {
        made->batches_.push_back({{*made->context_, made->pool_, kKeptRecordings}});
        Batch& batch = made->batches_.back();
        TRY(auto block, made->context_->allocate(kStagingBytes, VulkanMemory::upload));
        batch.staging.push_back(std::move(block));
    }
    return made;
}

VulkanCommands::~VulkanCommands() {
    vkDeviceWaitIdle(context_->device());
    vkDestroyCommandPool(context_->device(), pool_, nullptr);
}

void VulkanCommands::fail(const base::Error& error) {
    if (!error_) error_ = error;
}

base::Status VulkanCommands::settle(std::uint64_t submission) {
    return submission == 0 ? base::Status(base::Ok{}) : context_->wait(submission);
}

base::Status VulkanCommands::begin() {
    Batch& batch = batches_[now_];
    TRY_VOID(settle(batch.submission));
    batch.submission = 0;
    batch.staging.resize(1);
    batch.staged_bytes = 0;
    open_ = true;
    count_ = 0;
    list_.clear();
    add({});
    return base::Ok{};
}

bool VulkanCommands::ready() {
    if (error_) return false;
    if (!open_) {
        const base::Status begun = begin();
        if (!begun.ok()) fail(begun.error());
    }
    return !error_.has_value();
}

void VulkanCommands::submit() {
    if (!open_) return;
    open_ = false;
    Batch& batch = batches_[now_];
    const auto commands = batch.recordings.of(list_);
    if (!commands.ok()) return fail(commands.error());
    auto submitted = context_->submit(*commands);
    if (!submitted.ok()) return fail(submitted.error());
    batch.submission = last_ = *submitted;
    now_ = (now_ + 1) % batches_.size();
}

bool VulkanCommands::has_room(std::int64_t bytes) const {
    const Batch& batch = batches_[now_];
    return batch.staged_bytes + bytes <= batch.staging.back()->bytes;
}

// Room in the open batch's staging memory, which takes another block where it has none left.
base::Result<VulkanSlice> VulkanCommands::stage(std::int64_t bytes, std::int64_t room) {
    Batch& batch = batches_[now_];
    if (!has_room(room)) {
        TRY(auto block, context_->allocate(std::max(room, kStagingBytes), VulkanMemory::upload));
        batch.staging.push_back(std::move(block));
        batch.staged_bytes = 0;
    }
    const VulkanSlice slice{batch.staging.back().get(), batch.staged_bytes, bytes};
    batch.staged_bytes += room;
    return slice;
}

void VulkanCommands::add_copy(const VulkanSlice& from, const VulkanSlice& to) {
    VulkanCommand command{.kind = VulkanCommand::Kind::copy};
    command.from = from.block->buffer;
    command.to = to.block->buffer;
    command.from_number = from.block->number;
    command.to_number = to.block->number;
    command.region = {static_cast<VkDeviceSize>(from.offset), static_cast<VkDeviceSize>(to.offset),
                      static_cast<VkDeviceSize>(from.bytes)};
    add(command);
}

void VulkanCommands::finish() {
    submit();
    const base::Status waited = settle(last_);
    if (!waited.ok()) return fail(waited.error());
    now_ = 0;  // so that the next step has the addresses of this one
}

VulkanRecorded VulkanCommands::recorded() {
    const std::lock_guard lock(mutex_);
    VulkanRecorded all;
    for (const Batch& batch : batches_) {
        all.recorded += batch.recordings.counts().recorded;
        all.used_again += batch.recordings.counts().used_again;
    }
    return all;
}

void VulkanCommands::start() {
    const std::lock_guard lock(mutex_);
    submit();
}

void VulkanCommands::drain() {
    const std::lock_guard lock(mutex_);
    finish();
}

base::Status VulkanCommands::wait() {
    const std::lock_guard lock(mutex_);
    finish();
    if (!error_) return base::Ok{};
    const base::Error error = *error_;
    if (!context_->lost()) error_.reset();
    return error;
}

base::Status VulkanCommands::download(const VulkanSlice& from, std::byte* to) {
    constexpr std::int64_t kPieceBytes = 16 << 20;
    for (std::int64_t at = 0; at < from.bytes; at += kPieceBytes) {
        const std::int64_t bytes = std::min(kPieceBytes, from.bytes - at);
        const std::lock_guard lock(mutex_);
        if (download_ == nullptr || download_->bytes < bytes) {
            TRY(download_, context_->allocate(bytes, VulkanMemory::readback));
        }
        if (!ready()) return *error_;
        add({});
        add_copy(from.part(at, bytes), {download_.get(), 0, bytes});
        add({.kind = VulkanCommand::Kind::host_barrier});
        finish();
        if (error_) return *error_;
        std::memcpy(to + at, download_->mapped, base::size_of(bytes));
    }
    return base::Ok{};
}

// ---- an operator

VulkanCommands::Operator::Operator(VulkanCommands& commands)
    : commands_(commands), lock_(commands.mutex_) {
    ++commands_.operators_;
    barrier();
}

VulkanCommands::Operator::~Operator() {
    if (!commands_.open_) return;
    const bool took_more_staging = commands_.batches_[commands_.now_].staging.size() > 1;
    if (commands_.count_ >= kMostCommands || took_more_staging) commands_.submit();
}

void VulkanCommands::Operator::barrier() {
    if (commands_.ready()) commands_.add({});
}

VkDeviceAddress VulkanCommands::Operator::put_bytes(std::span<const std::byte> bytes) {
    if (!commands_.ready()) return 0;
    const auto size = static_cast<std::int64_t>(bytes.size());
    auto slice = commands_.stage(size, rounded_up(size));
    if (!slice.ok()) {
        commands_.fail(slice.error());
        return 0;
    }
    has_put_ = true;
    std::copy(bytes.begin(), bytes.end(), slice->mapped());
    return slice->address();
}

void VulkanCommands::Operator::dispatch_bytes(const Shader& shader, std::span<const std::byte> push,
                                              VulkanGroups groups,
                                              std::span<const std::uint32_t> constants) {
    if (!commands_.ready() || groups.x == 0 || groups.y == 0 || groups.z == 0) return;
    const auto pipeline = commands_.context_->pipeline(shader, constants);
    if (!pipeline.ok()) return commands_.fail(pipeline.error());
    CHECK(groups.x <= kMostGroups && groups.y <= kMostGroups && groups.z <= kMostGroups);
    VulkanCommand command{.kind = VulkanCommand::Kind::dispatch};
    command.pipeline = *pipeline;
    command.groups = {static_cast<std::uint32_t>(groups.x), static_cast<std::uint32_t>(groups.y),
                      static_cast<std::uint32_t>(groups.z)};
    command.push_bytes = static_cast<std::uint32_t>(push.size());
    std::copy(push.begin(), push.end(), command.push.begin());
    commands_.add(command);
    ++commands_.count_;
}

void VulkanCommands::Operator::copy(const VulkanSlice& from, const VulkanSlice& to) {
    if (!commands_.ready() || from.bytes == 0) return;
    commands_.add_copy(from, to);
    ++commands_.count_;
}

void VulkanCommands::Operator::upload(std::span<const std::byte> from, const VulkanSlice& to,
                                      ThreadPool* threads) {
    CHECK(static_cast<std::int64_t>(from.size()) == to.bytes);
    for (std::int64_t at = 0; at < to.bytes; at += kStagingBytes) {
        const std::int64_t bytes = std::min(kStagingBytes, to.bytes - at);
        if (!commands_.ready()) return;
        // What was put would be overwritten when its batch begins again.
        const std::int64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        if (!has_put_ && !commands_.has_room(room)) {
            commands_.submit();
            if (!commands_.ready()) return;
        }
        auto slice = commands_.stage(bytes, room);
        if (!slice.ok()) return commands_.fail(slice.error());
        copy_bytes(from.subspan(base::size_of(at), base::size_of(bytes)), slice->mapped(), threads);
        copy(*slice, to.part(at, bytes));
    }
}

}  // namespace helix::engine
