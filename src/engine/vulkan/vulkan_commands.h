#pragma once

#include <volk.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/index.h"
#include "base/result.h"
#include "engine/host/thread_pool.h"
#include "engine/vulkan/vulkan_context.h"
#include "engine/vulkan/vulkan_recordings.h"

namespace helix::engine {

// Workgroups of a dispatch.
struct VulkanGroups {
    std::int64_t x = 1;
    std::int64_t y = 1;
    std::int64_t z = 1;
};

// Takes commands, and submits them when they are many or someone waits. A batch of commands that is
// the same as one before it, down to its addresses, is not recorded again; so that this happens,
// what changes from step to step is put, where shaders read it. What goes wrong is kept: the next
// wait says it, and a lost device stays lost. Any thread may record.
class VulkanCommands {
  public:
    // What one operator records. Nobody else records while it lives. Its commands come after all
    // that were recorded before, and among each other in no order but by barrier().
    class Operator {
      public:
        explicit Operator(VulkanCommands& commands);
        ~Operator();
        Operator(const Operator&) = delete;
        Operator& operator=(const Operator&) = delete;

        // Where shaders find a copy of these; until the operator is done. What is put after it lies
        // where it would if these were more, up to the next power of two in bytes.
        template <typename T>
        VkDeviceAddress put(std::span<const T> values) {
            static_assert(std::is_trivially_copyable_v<T>);
            return put_bytes(std::as_bytes(values));
        }
        // push: the shader's push constants, laid out as C++ does (scalar).
        template <typename Push>
        void dispatch(const Shader& shader, const Push& push, VulkanGroups groups,
                      std::span<const std::uint32_t> constants = {}) {
            static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= 128);
            dispatch_bytes(shader, std::as_bytes(std::span(&push, 1)), groups, constants);
        }
        // As many bytes as `from` has.
        void copy(const VulkanSlice& from, const VulkanSlice& to);
        // Host memory to the device's: through staging memory. threads: what is large is copied
        // there by all of them, since one writes more slowly than a card takes it; null: by the
        // caller alone.
        void upload(std::span<const std::byte> from, const VulkanSlice& to, ThreadPool* threads);
        // What follows comes after what was recorded.
        void barrier();
        // The next wait says so, and nothing is recorded until then.
        void fail(const base::Error& error) { commands_.fail(error); }

      private:
        VkDeviceAddress put_bytes(std::span<const std::byte> bytes);
        void dispatch_bytes(const Shader& shader, std::span<const std::byte> push,
                            VulkanGroups groups, std::span<const std::uint32_t> constants);

        VulkanCommands& commands_;
        std::unique_lock<std::mutex> lock_;
        bool has_put_ = false;  // so its batch is not submitted before it is done
    };

    static base::Result<std::unique_ptr<VulkanCommands>> create(
        std::shared_ptr<VulkanContext> context);
    ~VulkanCommands();
    VulkanCommands(const VulkanCommands&) = delete;
    VulkanCommands& operator=(const VulkanCommands&) = delete;

    VulkanContext& context() { return *context_; }
    // That have recorded so far.
    std::uint64_t operators() const { return operators_; }
    VulkanRecorded recorded();
    // Submits what was recorded.
    void start();
    // Until all that was recorded has ended. The error is what went wrong since the last wait.
    base::Status wait();
    // As wait(), and leaves the error to it.
    void drain();
    // Copies of the device's memory into `to`, after all that was recorded.
    base::Status download(const VulkanSlice& from, std::byte* to);

  private:
    // What is submitted at once, and what it reads of the host.
    struct Batch {
        VulkanRecordings recordings;
        std::uint64_t submission = 0;  // 0: none under way
        // The first is kept; those beside it go when the batch begins again.
        std::vector<std::unique_ptr<VulkanBlock>> staging = {};
        std::int64_t staged_bytes = 0;  // of the last
    };

    explicit VulkanCommands(std::shared_ptr<VulkanContext> context)
        : context_(std::move(context)) {}
    // All with the lock held.
    void fail(const base::Error& error);
    void submit();
    base::Status begin();  // the next batch
    base::Status settle(std::uint64_t submission);
    void finish();                            // submits, and waits for all
    bool has_room(std::int64_t bytes) const;  // in the open batch's last block of staging memory
    // room: that it takes of the staging memory, at least `bytes`.
    base::Result<VulkanSlice> stage(std::int64_t bytes, std::int64_t room);
    void add(const VulkanCommand& command) { list_.push_back(command); }
    void add_copy(const VulkanSlice& from, const VulkanSlice& to);
    bool ready();  // a batch is open and nothing has failed

    std::shared_ptr<VulkanContext> context_;
    std::mutex mutex_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    std::vector<Batch> batches_;
    std::size_t now_ = 0;     // of batches_
    bool open_ = false;       // it takes commands
    std::int32_t count_ = 0;  // of them, without barriers
    std::vector<VulkanCommand> list_;
    std::uint64_t last_ = 0;  // submission
    std::unique_ptr<VulkanBlock> download_;
    std::optional<base::Error> error_;
    std::atomic<std::uint64_t> operators_ = 0;
};

}  // namespace helix::engine
