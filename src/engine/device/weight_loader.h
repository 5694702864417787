#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/host/thread_pool.h"
#include "engine/kernels/packed_matrix.h"
#include "model/weight_source.h"

namespace helix::engine {

// Brings tensors of a weight source into the form that the kernels take. Errors name the tensor.
class WeightLoader {
  public:
    WeightLoader(model::WeightSource& source, ThreadPool& pool) : source_(source), pool_(pool) {}

    // Matrices loaded from here on will take about so many bytes: they lie one after the other.
    void expect(std::int64_t bytes);
    // rows: outputs; cols: inputs.
    base::Result<ops::PackedMatrix> matrix(std::string_view name, std::int64_t rows,
                                           std::int64_t cols);
    // The matrices of a tensor of three dimensions, the experts of a layer.
    base::Result<std::vector<ops::PackedMatrix>> matrices(std::string_view name, std::int64_t count,
                                                          std::int64_t rows, std::int64_t cols);
    // A float32 vector, as norms are.
    base::Result<std::vector<float>> vector(std::string_view name, std::int64_t size);
    // Bytes that matrix(), matrices() or vector() will hold.
    base::Result<std::int64_t> bytes(std::string_view name) const;

  private:
    base::Result<const model::TensorInfo*> find(std::string_view name) const;
    std::shared_ptr<ops::MatrixMemory> memory();

    model::WeightSource& source_;
    ThreadPool& pool_;
    std::int64_t expected_bytes_ = 0;
    std::shared_ptr<ops::MatrixMemory> memory_;  // once something was loaded
};

}  // namespace helix::engine
