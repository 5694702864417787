#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "engine/host/aligned_buffer.h"
#include "engine/host/thread_pool.h"
#include "model/tensor_type.h"

namespace helix::engine::ops {

constexpr int kPanelRows = 16;

// Memory that matrices take one after the other: huge pages hold the whole of them, however small
// they are. What a matrix took goes back to the kernel with it.
class MatrixMemory {
  public:
    static base::Result<std::shared_ptr<MatrixMemory>> allocate(std::int64_t bytes);

    // A part of it that somebody holds.
    class Part {
      public:
        Part() = default;
        ~Part();
        Part(Part&& other) noexcept
            : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, {})) {}
        Part& operator=(Part&& other) noexcept {
            std::swap(memory_, other.memory_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        std::byte* data() { return bytes_.data(); }
        const std::byte* data() const { return bytes_.data(); }
        std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
        // As AlignedBuffer's, from the part's begin.
        void part_huge_pages(std::int64_t offset);

      private:
        friend class MatrixMemory;
        std::size_t offset_in_buffer() const;
        std::shared_ptr<MatrixMemory> memory_;
        std::span<std::byte> bytes_;
    };

    // The next `bytes` of `memory`; from memory of its own where less than that is left.
    static base::Result<Part> take(std::shared_ptr<MatrixMemory> memory, std::int64_t bytes);

  private:
    AlignedBuffer buffer_;
    std::size_t used_ = 0;
};

// A weight matrix [rows, cols] (one output per row) in the kernels' layout: panels of 16 rows, so
// that lane i of a vector belongs to row i of the panel and every output is summed over the columns
// in ascending order, whatever the vector width and the number of rows of the input. Takes as many
// bytes as the GGUF blocks (IQ4_XS: 2 % more, Q4_K: 3 %, Q5_K, Q6_K, Q3_K and MXFP4: up to 6 %).
// The last panel is filled up with zero rows.
//
// A panel is a sequence of units along the columns:
//   f32, f16, bf16   1 column:     [16] values
//   q8_0             32 columns:   [16] half scales, [8][16][4] bytes w + 128
//   q4_0, iq4_nl     32 columns:   [16] half scales, nibbles [4][16][4]; group g of 4 columns is in
//                                  the low nibbles of [g] for g < 4, in the high ones of [g - 4]
//                                  otherwise
//   mxfp4            32 columns:   [16] bfloat scales, nibbles
//   q4_1             32 columns:   [16] half scales, [16] half mins, nibbles
//   q5_0, q5_1       32 columns:   as q4_0 and q4_1, then fifth bits [16][4]: bit g of the byte is
//                                  that of group g
//   q4_k             256 columns:  [16] half d, [16] half dmin, then 8 x ([16] scale, [16] min,
//                                  nibbles)
//   q5_k             256 columns:  as q4_k, each of the 8 followed by its fifth bits
//   q6_k             256 columns:  [16] half d, then 8 x ([16] scale of columns 0-15, [16] of
//   16-31,
//                                  nibbles, [2][16][4] bytes: bits 2g' and 2g'+1 of [g / 4] are the
//                                  high bits of group g, g' = g % 4)
//   q3_k             256 columns:  [16] half d, then 8 x ([16] scale - 32 of columns 0-15, [16] of
//                                  16-31, [2][16][4] low bits as q6_k's high ones, third bits
//                                  [16][4])
//   q2_k             256 columns:  [16] half d, [16] half dmin, then 8 x ([16] scale and min of
//                                  columns 0-15, as nibbles, [16] of 16-31, [2][16][4] bits as
//                                  q3_k's low ones)
//   iq4_xs           256 columns:  [16] half d, then 8 x ([16] scale - 32, nibbles)
//   fp8              64 columns:   [16] float scales, [64][16] bytes
//   int4             32 columns:   [16] scales of 16 bits, [16] bytes of zeros, nibbles
//   others           a block:      the blocks of 16 rows as the file has them
class PackedMatrix {
  public:
    PackedMatrix() = default;
    // data: rows * cols elements as GGUF stores them. cols must be a multiple of the type's block.
    // Each of the pool's ranks packs its own panels: on its memory node, where there are several.
    // memory: that it takes its own from; may be null.
    static base::Result<PackedMatrix> pack(model::TensorType type, std::int64_t rows,
                                           std::int64_t cols, std::span<const std::byte> data,
                                           ThreadPool& pool,
                                           std::shared_ptr<MatrixMemory> memory = nullptr);
    // Bytes that pack() will allocate.
    static std::int64_t packed_bytes(model::TensorType type, std::int64_t rows, std::int64_t cols);

    model::TensorType type() const { return type_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    std::int64_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
    // Rank r of `ranks` computes panels [first_panel(r, ranks), first_panel(r + 1, ranks)).
    std::int64_t first_panel(int rank, int ranks) const { return panels() * rank / ranks; }
    const std::byte* panel(std::int64_t i) const { return memory_.data() + i * panel_bytes_; }
    std::int64_t bytes() const { return memory_.size(); }

  private:
    model::TensorType type_ = model::TensorType::f32;
    std::int64_t rows_ = 0;
    std::int64_t cols_ = 0;
    std::int64_t panel_bytes_ = 0;
    MatrixMemory::Part memory_;
};

// Does the kernel for this type read quantised activations?
bool takes_quantised_input(model::TensorType type);

}  // namespace helix::engine::ops
