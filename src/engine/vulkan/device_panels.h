#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/device/memory.h"
#include "engine/host/thread_pool.h"

namespace helix::engine {

// Weight matrices as matmul shaders read them. Panels of 16 outputs, as the CPU's (see
// ops::PackedMatrix), but what a lane reads at once of its output is together, up to 16 bytes, and
// the lanes of a panel read in one stream. A panel of a quantised matrix is planes: one of what
// every block has most of, one of each kind of scales, of eight blocks together; the shaders'
// dot_FORMAT.glsl say which. A float matrix has [16 outputs][16 bytes of columns], the last filled
// up, and behind these the scales of its segments, where it has such. The matrices of several
// experts follow each other, and after them comes the rest: the grid that codes number points of
// (model/quant/grids.h), or the factors of NVFP4 matrices, as floats.
class DevicePanels {
  public:
    // invalid: no such format, or no such size.
    static base::Result<DevicePanels> create(const MatrixShape& shape);

    std::int64_t panel_bytes() const { return panel_bytes_; }
    std::int64_t panels() const { return count_ * panels_of_matrix_; }
    std::int64_t bytes() const { return rest_offset() + rest_bytes_; }
    std::int64_t rest_offset() const { return panels() * panel_bytes_; }
    // Of the elements as GGUF stores them, all matrices.
    std::int64_t stored_bytes() const { return count_ * rows_ * row_bytes_; }
    // Panels [first, first + count) into `out`. data: stored_bytes().
    void pack(std::span<const std::byte> data, std::int64_t first, std::int64_t count,
              ThreadPool& pool, std::byte* out) const;

  private:
    // A row of a matrix whose activations are floats.
    void pack_float_row(const std::byte* row, std::int64_t output, std::byte* panel) const;
    void pack_panel(std::span<const std::byte> data, std::int64_t panel, std::byte* out) const;

    model::TensorType type_ = model::TensorType::f32;
    std::int64_t count_ = 0;
    std::int64_t rows_ = 0;
    std::int64_t row_bytes_ = 0;  // as stored
    std::int64_t panels_of_matrix_ = 0;
    std::int64_t panel_bytes_ = 0;
    std::int64_t rest_bytes_ = 0;
};

// What comes after the panels of such matrices.
std::vector<std::byte> rest_of_matrices(const MatrixShape& shape);

}  // namespace helix::engine
