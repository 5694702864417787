#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/group_memory.h"
#include "model/model_config.h"

namespace helix::engine {

// invalid: so many tensor parallel ranks cannot share the model's key-value heads.
base::Status check_heads(int ranks, const model::ModelConfig& config);

// Several devices of one kind as one: its tensor parallel ranks. Each has its range of every
// matrix' outputs, and its heads of every KV page. An output is computed whole by one rank, so
// nothing is summed over ranks and the bits are those of one device. What all ranks need (the rows
// that a matrix multiplies or a norm reads) is gathered in this machine's memory and written to
// every rank: for a layer four times.
class DeviceGroup final : public Device {
  public:
    // ranks: at least one, which compute the same bits.
    explicit DeviceGroup(std::vector<std::unique_ptr<Device>> ranks);

    std::int64_t memory_bytes() const override;
    std::int32_t compute_threads() const override;
    ThreadPool& host_threads() override { return ranks_.front()->host_threads(); }
    bool lost() const override;
    void start() override;

    // Takes memory of the devices once it is known how it is divided.
    base::Result<std::unique_ptr<Buffer>> make_buffer(std::int64_t floats) override;
    base::Result<std::unique_ptr<KvArena>> make_kv_arena(const ops::KvLayout& page,
                                                         std::int64_t pages,
                                                         std::int64_t swap_pages) override;
    std::unique_ptr<Routing> make_routing() override;
    base::Result<std::unique_ptr<Matrix>> make_matrix(const MatrixShape& shape,
                                                      std::span<const std::byte> data) override;
    std::int64_t matrix_bytes(const MatrixShape& shape) const override;
    std::int64_t buffer_bytes(std::int64_t floats) const override;
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
    using State = GroupBuffer::State;

    std::int64_t ranks() const { return std::ssize(ranks_); }
    std::int64_t columns(std::int64_t width, std::int64_t rank) const;
    bool divides(const MatrixShape& shape) const;
    MatrixShape shape_of_rank(const MatrixShape& shape, std::int64_t rank) const;
    // Keeps the first error for read(). True: there is none.
    bool keep(const base::Status& status);
    base::Error fail();

    // How a buffer is needed by what comes next; false: an error was kept.
    bool need_whole(const Buffer& buffer);
    bool need_parts(const Buffer& buffer, std::int64_t rows, std::int64_t width);
    // It is about to be overwritten, on every rank or each its columns.
    bool write_whole(Buffer& buffer);
    bool write_parts(Buffer& buffer, std::int64_t rows, std::int64_t width);
    void norm_heads(const ops::LayerNorm& op);
    bool write_product(const ops::Projection& to, std::int64_t rows);
    // Says of a buffer that an operator changes in place which form of it holds.
    static void only_whole(Buffer& buffer);
    static void only_parts(Buffer& buffer);

    base::Status allocate_whole(const GroupBuffer& buffer);
    base::Status allocate_parts(State& state, std::int64_t rows, std::int64_t width);
    base::Status gather(const GroupBuffer& buffer);
    base::Status divide(State& state, std::int64_t rows, std::int64_t width);
    // [rows, width], from all parts.
    base::Result<std::span<const float>> collect(const State& state, std::int64_t first_row,
                                                 std::int64_t rows);
    // Rows that are divided: whole on the first rank, or the greatest of each rank's columns and
    // then of all ranks'.
    base::Status reduce_gathered(const ops::ReduceLogits& op);
    base::Status reduce_parts(const ops::ReduceLogits& op);
    bool prepare_products(const Buffer& x, std::int64_t rows, std::span<const ops::Projection> to);
    template <typename Gated, typename Run>
    void run_gated(const Gated& op, const Run& run);
    template <typename InPlace, typename Run>
    void run_in_place(const InPlace& op, const Run& run);
    std::vector<ops::Projection> products_of(std::size_t rank,
                                             std::span<const ops::Projection> to) const;

    std::vector<std::unique_ptr<Device>> ranks_;
    std::vector<std::unique_ptr<Buffer>> nothing_;  // one float of each rank, to wait for
    std::vector<float> collected_;
    std::vector<ops::RowRange> ranges_;
    std::vector<std::unique_ptr<Buffer>> reduced_;  // of each rank
    std::unique_ptr<Buffer> gathered_;              // of the first
    std::vector<float> merged_;
    std::optional<base::Error> error_;
};

}  // namespace helix::engine
