#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/device/device.h"
#include "engine/host/thread_pool.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_instance.h"
#include "engine/vulkan/vulkan_pool.h"
#include "engine/vulkan/vulkan_proof.h"

namespace helix::engine {

class VulkanRouting;

struct VulkanDeviceOptions {
    std::string_view device;  // as VulkanInstance::find() takes it
    int threads = 0;          // of this machine, to draw tokens with; 0: one for each core
    // Of its own memory it takes no more, as if it had no more. 0: whatever it has.
    std::int64_t most_bytes = 0;
};

// A device with a Vulkan driver. All operators give the CPU device's bits: sums are taken in the
// same order, and what Vulkan leaves to a device is proven when it is opened or computed by
// shaders/numerics.glsl. Operators are recorded and run when they are many or read() waits.
class VulkanDevice final : public Device {
  public:
    // not_found: no such device. invalid: it cannot do what every shader needs; says what.
    static base::Result<std::unique_ptr<Device>> create(
        std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceOptions& options);
    ~VulkanDevice() override;

    const VulkanProof& proof() const { return proof_; }
    // Whether it multiplies bytes by its integer dot product, where that is proven: the same
    // integers either way. At first it does.
    void use_integer_dot(bool use) {
        context_->use_integer_dot(use && proof_.integer_dot == FeatureProof::proven);
    }
    // Whether it multiplies many rows on its matrix cores, where they are proven: the same floats
    // either way. At first it does.
    void use_matrix_cores(bool use) {
        context_->use_matrix_cores(use && proof_.matrix_cores == FeatureProof::proven);
    }
    // Whether it turns halves into floats by itself, where that is proven: the same floats either
    // way. At first it does.
    void use_unpacked_halves(bool use) {
        context_->use_unpacked_halves(use && proof_.unpacks_halves);
    }

    // Batches of commands so far.
    VulkanRecorded recorded() { return commands_->recorded(); }

    std::int64_t memory_bytes() const override;
    std::int32_t compute_threads() const override { return 0; }
    ThreadPool& host_threads() override { return threads_; }
    bool lost() const override { return context_->lost(); }
    void start() override { commands_->start(); }

    base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) override;
    base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                         std::int64_t pages,
                                                         std::int64_t swap_pages) override;
    std::unique_ptr<Routing> make_routing() override;
    base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                      std::span<const std::byte> data) override;
    std::int64_t matrix_bytes(const MatrixShape& shape) const override;
    void expect_matrices(std::int64_t bytes) override;

    base::Status write(Buffer& buffer, std::int64_t first, std::span<const float> values) override;
    base::Result<std::span<const float>> read(const Buffer& buffer, std::int64_t first,
                                              std::int64_t count) override;

    void rms_norm(const ops::RmsNorm& op) override;
    void matmul(const ops::Matmul& op) override;
    void rope(const ops::Rope& op) override;
    void kv_store(const ops::KvStore& op) override;
    void attention(const ops::Attention& op) override;
    void swiglu(const ops::Swiglu& op) override;
    void add_rows(const ops::AddRows& op) override;
    void add_bias(const ops::AddBias& op) override;
    void geglu(const ops::Geglu& op) override;
    void reglu(const ops::Reglu& op) override;
    void gelu(const ops::Gelu& op) override;
    void clamped_swiglu(const ops::ClampedSwiglu& op) override;
    void layer_norm(const ops::LayerNorm& op) override;
    void scale_rows(const ops::ScaleRows& op) override;
    void copy_rows(const ops::CopyRows& op) override;
    void route_rows(const ops::RouteRows& op) override;
    void gather_visits(const ops::GatherVisits& op) override;
    void expert_matmul(const ops::ExpertMatmul& op) override;
    void add_visits(const ops::AddVisits& op) override;
    void reduce_logits(const ops::ReduceLogits& op) override;

  private:
    VulkanDevice(std::shared_ptr<VulkanContext> context, const VulkanProof& proof, int threads);
    // routing: rows are visits of experts; null: one matrix for all rows.
    void multiply(const Buffer& x, std::int64_t rows, std::span<const ops::Projection> to,
                  const VulkanRouting* routing);
    // gate = f(gate) * up, f the activation of this number in the shader.
    void gate(Buffer& gate, const Buffer& up, std::int64_t floats, std::int64_t width,
              std::uint32_t activation);
    // Where activations lie as int8, so many blocks of 32. unavailable: no memory for so much.
    base::Result<VkDeviceAddress> quantised_room(std::int64_t blocks);
    // The same for an operator that makes what quantised matrices may be multiplied by next. 0: it
    // makes floats only, and what multiplies next quantises them.
    VkDeviceAddress quantised_room_of_next(std::int64_t floats, std::int64_t width);
    // Operators that follow each other know what lies there.
    void note_quantised(const Buffer& x, std::int64_t floats);
    bool is_quantised(const Buffer& x, std::int64_t floats) const;
    // For the sums of chunks that are taken apart; false: there is no memory for so much.
    bool make_attention_room(std::int64_t bytes);

    std::shared_ptr<VulkanContext> context_;
    VulkanProof proof_;
    ThreadPool threads_;
    std::shared_ptr<VulkanCommands> commands_;
    std::shared_ptr<VulkanPool> buffers_, matrices_;
    std::vector<float> read_;
    // Work space of the operators.
    struct {
        VkDeviceAddress x = 0;
        std::int64_t floats = 0;
        std::uint64_t operators = 0;  // had recorded when it was made
    } quantised_;
    std::atomic<bool> has_quantised_matrices_ = false;  // matrices may come while others compute
    VulkanMemoryPart matmul_room_, attention_room_, logits_room_;
};

}  // namespace helix::engine
