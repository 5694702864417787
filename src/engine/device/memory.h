#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "base/result.h"
#include "core/protocol/batch_plan.h"
#include "engine/ops/memory.h"
#include "model/tensor_type.h"

// What a device holds. Each device has classes of its own for these; it is given only those that it
// has made itself.

namespace helix::engine {

// Floats in a device's memory; nothing is known of their values before they are written.
class Buffer {
  public:
    explicit Buffer(std::int64_t size) : size_(size) {}
    virtual ~Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::int64_t size() const { return size_; }  // floats

  private:
    std::int64_t size_;
};

// `count` weight matrices of the same shape: those of a layer's experts, or one.
struct MatrixShape {
    model::TensorType type = model::TensorType::f32;
    std::int64_t count = 1;
    std::int64_t rows = 0;  // outputs
    std::int64_t cols = 0;  // inputs
    // [count]: what the products of each are multiplied by, once they are whole. Empty: by nothing.
    std::vector<float> factors = {};
    float factor(std::int64_t i) const { return factors.empty() ? 1.0F : factors[base::at(i)]; }
};

// Weight matrices, in the form that the device multiplies by.
class Matrix {
  public:
    explicit Matrix(const MatrixShape& shape) : shape_(shape) {}
    virtual ~Matrix() = default;
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
    const MatrixShape& shape() const { return shape_; }

  private:
    MatrixShape shape_;
};

// Which experts the rows of a batch visit; see ops/experts.h. Work space of the device.
class Routing {
  public:
    Routing() = default;
    virtual ~Routing() = default;
    Routing(const Routing&) = delete;
    Routing& operator=(const Routing&) = delete;
};

// The pages of a worker's KV cache, and host memory beside them for pages that are swapped out. How
// a page lies in here is the device's affair; all devices' pages travel in one form.
class KvArena {
  public:
    KvArena() = default;
    virtual ~KvArena() = default;
    KvArena(const KvArena&) = delete;
    KvArena& operator=(const KvArena&) = delete;

    virtual std::int64_t pages() const = 0;
    virtual std::int64_t swap_pages() const = 0;
    // Swaps out, swaps in and copies what the plan names, in this order. All of it is here.
    virtual base::Status move(const core::BatchPlan& plan) = 0;
    // A page as it travels: as ops::KvLayout with one rank describes it. Other threads may call
    // these while operators work on other pages.
    virtual base::Status read(core::PageId page, std::byte* bytes) const = 0;
    virtual base::Status write(core::PageId page, const std::byte* bytes) = 0;
};

}  // namespace helix::engine
