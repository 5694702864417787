#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/cpu/attention_cpu.h"
#include "engine/cpu/matmul_cpu.h"
#include "engine/device/device.h"
#include "engine/host/numa_nodes.h"
#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/kernels/reduce_row.h"
#include "model/model_config.h"

namespace helix::engine {

// Sees what matrices multiply.
class InputWatcher {
  public:
    virtual ~InputWatcher() = default;
    // Before it multiplies anything.
    virtual void matrix(const Matrix& matrix, std::string_view tensor) = 0;
    // [rows, columns], that come to the matrix of so many of the tensor's: 0, or an expert.
    virtual void rows(const Matrix& matrix, std::int64_t expert, std::span<const float> rows) = 0;
};

struct CpuDeviceOptions {
    int threads = 0;        // 0 = one for each core of the machine
    std::vector<int> cpus;  // cores to pin the threads to; empty = not pinned, see place_threads()
    // Tensor parallel ranks: groups of threads, each with its share of the heads and of every
    // matrix' outputs in memory of its own. Divides the key-value heads; at most one per thread.
    int ranks = 1;
    std::optional<ops::Isa> isa;      // empty = the best of this machine; all give the same bits
    InputWatcher* watcher = nullptr;  // null: nobody looks. Outlives the device.
};

// invalid: so many ranks do not divide the model's key-value heads, or have no thread each.
base::Status check_ranks(int ranks, int threads, const model::ModelConfig& config);

// The cores and the memory of this machine. Every operator is done when its call returns.
class CpuDevice final : public Device {
  public:
    // invalid: an option that this machine has not got, or ranks that do not suit the model.
    static base::Result<std::unique_ptr<Device>> create(CpuDeviceOptions options,
                                                        const model::ModelConfig& config);

    std::int64_t memory_bytes() const override;  // four fifths of what is free
    std::int32_t compute_threads() const override { return pool_.size(); }
    ThreadPool& host_threads() override { return pool_; }

    base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) override;
    // Pages take physical memory only once they are used.
    base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                         std::int64_t pages,
                                                         std::int64_t swap_pages) override;
    std::unique_ptr<Routing> make_routing() override;
    base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                      std::span<const std::byte> data) override;
    void name_matrix(const Matrix& matrix, std::string_view tensor) override;
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
    CpuDevice(const ops::Kernels& kernels, ThreadPlaces places, InputWatcher* watcher);
    std::shared_ptr<ops::MatrixMemory> matrix_memory();

    const ops::Kernels& kernels_;
    InputWatcher* watcher_;
    ThreadPool pool_;
    std::int64_t expected_bytes_ = 0;                   // of matrices
    std::shared_ptr<ops::MatrixMemory> matrix_memory_;  // once one was made

    // Work space of the operators.
    ops::MatmulRows matmul_rows_;
    std::vector<ops::MatmulJob> jobs_;
    std::vector<const ops::SequenceRows*> row_sequence_;
    ops::PagedAttention attention_;
    std::vector<const std::byte*> pages_;
    std::vector<ops::AttentionRows> sequences_;
    std::vector<ops::RowReducer> reducers_;  // one for each thread
};

}  // namespace helix::engine
