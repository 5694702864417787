#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/index.h"
#include "engine/device/memory.h"
#include "engine/kernels/packed_matrix.h"

// What the CPU device holds: ordinary memory.

namespace helix::engine {

class CpuBuffer final : public Buffer {
  public:
    explicit CpuBuffer(std::int64_t size) : Buffer(size), values_(base::size_of(size)) {}
    float* data() { return values_.data(); }
    const float* data() const { return values_.data(); }

  private:
    std::vector<float> values_;
};

class CpuMatrix final : public Matrix {
  public:
    CpuMatrix(const MatrixShape& shape, std::vector<ops::PackedMatrix> packed)
        : Matrix(shape), packed_(std::move(packed)) {}
    const ops::PackedMatrix& packed(std::int64_t i = 0) const { return packed_[base::at(i)]; }

  private:
    std::vector<ops::PackedMatrix> packed_;
};

class CpuRouting final : public Routing {
  public:
    // A row's visit to one of its experts. Visits to the same expert lie together.
    struct Visit {
        std::int64_t row = 0;
        float weight = 0;
    };

    std::int64_t rows = 0;
    std::int64_t n_used = 0;
    std::vector<Visit> visits;              // by expert
    std::vector<std::int64_t> first_visit;  // [n_experts + 1]
    std::vector<std::int64_t> visit_of;     // [rows, n_used], index of visits
    // Work space.
    std::vector<std::int32_t> chosen;   // [rows, n_used], ascending
    std::vector<float> chosen_weights;  // [rows, n_used]
};

inline float* data_of(Buffer& buffer) {
    return static_cast<CpuBuffer&>(buffer).data();
}
inline const float* data_of(const Buffer& buffer) {
    return static_cast<const CpuBuffer&>(buffer).data();
}

}  // namespace helix::engine
