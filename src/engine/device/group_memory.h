#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/device/memory.h"

// What a DeviceGroup holds: of each thing one on every rank.

namespace helix::engine {

// Of `width` columns those from first_column(width, rank, ranks) up to the next rank's first are
// the rank's: whole heads, where the ranks divide the heads.
inline std::int64_t first_column(std::int64_t width, std::int64_t rank, std::int64_t ranks) {
    return width * rank / ranks;
}

// Floats that every rank has whole, or of which each has its columns, or both. Which of them is a
// matter of what was computed last, so that it changes under a buffer that is only read.
class GroupBuffer final : public Buffer {
  public:
    using Buffer::Buffer;

    struct State {
        bool whole_valid = false;
        bool parts_valid = false;
        std::int64_t rows = 0;   // of the parts
        std::int64_t width = 0;  // of all parts together
        // For each rank, null before they are needed.
        std::vector<std::unique_ptr<Buffer>> whole;  // of size()
        std::vector<std::unique_ptr<Buffer>> parts;  // [rows, the rank's columns]
    };
    State& state() const { return state_; }

  private:
    mutable State state_;
};

// Each rank has its range of every matrix' outputs, or all of them.
class GroupMatrix final : public Matrix {
  public:
    GroupMatrix(const MatrixShape& shape, bool divided, std::vector<std::unique_ptr<Matrix>> parts)
        : Matrix(shape), divided_(divided), parts_(std::move(parts)) {}
    bool divided() const { return divided_; }
    const Matrix& part(std::size_t rank) const { return *parts_[rank]; }

  private:
    bool divided_;
    std::vector<std::unique_ptr<Matrix>> parts_;
};

// The same on every rank.
class GroupRouting final : public Routing {
  public:
    std::int64_t rows = 0;
    std::int64_t visits = 0;
    std::vector<std::unique_ptr<Routing>> of_rank;
};

}  // namespace helix::engine
