#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"
#include "model/weight_source.h"

namespace helix::engine {

// What the products of a tensor's matrices are multiplied by, one for each of them
// (model::factor_tensor); empty: nothing. Errors name the tensor.
base::Result<std::vector<float>> read_factors(model::WeightSource& source,
                                              const model::TensorInfo& matrices);

// Brings tensors of a weight source to a device, matrices with their factors. Errors name the
// tensor.
class WeightLoader {
  public:
    WeightLoader(model::WeightSource& source, Device& device) : source_(source), device_(device) {}

    // rows: outputs; cols: inputs.
    base::Result<std::unique_ptr<Matrix>> matrix(std::string_view name, std::int64_t rows,
                                                 std::int64_t cols);
    // The matrices whose outputs lie one behind the other in the tensor: rows[i] those of the i-th;
    // in a tensor of three dimensions, for each of count experts.
    base::Result<std::vector<std::unique_ptr<Matrix>>> split_matrices(
        std::string_view name, std::int64_t count, std::span<const std::int64_t> rows,
        std::int64_t cols);
    // The matrices of a tensor of three dimensions, the experts of a layer.
    base::Result<std::unique_ptr<Matrix>> matrices(std::string_view name, std::int64_t count,
                                                   std::int64_t rows, std::int64_t cols);
    // A float32 vector, as norms are, times a factor.
    base::Result<std::unique_ptr<Buffer>> vector(std::string_view name, std::int64_t size,
                                                 float factor = 1.0F);
    // The vectors that lie one behind the other in a float32 vector, of these sizes.
    base::Result<std::vector<std::unique_ptr<Buffer>>> split_vectors(
        std::string_view name, std::span<const std::int64_t> sizes);
    // The only element of a float32 vector, for the host.
    base::Result<float> number(std::string_view name);
    // Bytes of the device that matrix() or matrices() will take, or vector() of a tensor of one
    // dimension.
    base::Result<std::int64_t> bytes(std::string_view name) const;
    // The same of vector(), whatever dimensions the tensor has.
    std::int64_t vector_bytes(std::int64_t size) const;
    // The same of split_matrices().
    base::Result<std::int64_t> split_bytes(std::string_view name,
                                           std::span<const std::int64_t> rows) const;

  private:
    base::Result<const model::TensorInfo*> find(std::string_view name) const;
    // The elements of a float32 vector of this size.
    base::Result<std::vector<float>> floats(std::string_view name, std::int64_t size);
    base::Result<std::unique_ptr<Matrix>> make(const model::TensorInfo& info, MatrixShape shape);

    model::WeightSource& source_;
    Device& device_;
};

}  // namespace helix::engine
