#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/hf/hf_quantisation.h"
#include "model/hf/safetensors.h"
#include "model/tensor_type.h"

// Matrices that a folder of safetensors has quantised, and our blocks of them, whose values are
// theirs. For a matrix of n rows (outputs) and m columns, the module X has
//   FP8                  X.weight [n, m] E4M3; X.weight_scale_inv or X.weight_scale, factors: one,
//                        [n] or [n, 1] of rows, or of blocks, the last of which may be smaller
//   GPTQ                 X.qweight [m / 8, n]; X.qzeros [groups, n / 8]; X.scales [groups, n];
//                        perhaps X.g_idx [m]. A word has eight columns, the first lowest; of
//                        eight bits, four
//   AWQ                  X.qweight [m, n / 8]; X.qzeros, X.scales as GPTQ. A word has eight rows:
//                        0, 2, 4, 6, 1, 3, 5, 7
//   compressed-tensors   X.weight_packed [n, m / 8]; X.weight_scale [n, groups]; perhaps
//                        X.weight_zero_point [n / 8, groups], without which it is 8
// and a weight is its number, less its zero, times its scale.

namespace helix::model {

struct QuantisedMatrix {
    enum class Layout { fp8, gptq, awq, packed };

    Layout layout = Layout::fp8;
    TensorType type = TensorType::fp8;  // of ours: fp8, int4 or q8_0
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t scale_rows = 1;  // that have one scale
    std::int64_t scale_cols = 0;
    bool zeros_less_one = false;
    TensorSource weight = {};
    TensorSource scales = {};
    TensorSource zeros = {};  // may be none
    TensorSource order = {};  // of columns in groups; may be none

    // The tensors it is made of.
    std::vector<const SafeTensor*> parts() const;
};

// The matrix "X.weight"; nothing where it is not quantised. path: of the folder, for messages.
base::Result<std::optional<QuantisedMatrix>> find_quantised(const TensorSources& sources,
                                                            const HfQuantisation& quantisation,
                                                            const std::string& path,
                                                            std::string_view name,
                                                            std::int64_t rows, std::int64_t cols);

// Whether a tensor says how activations or cached keys and values may be rounded, which nobody
// needs who does not round them.
bool is_scale_of_activations(std::string_view name);

// A matrix that has been read.
class QuantisedRows {
  public:
    // Errors name the tensor: columns out of order, zeros other than 128 of eight bits, weights
    // that are no numbers.
    static base::Result<QuantisedRows> read(const QuantisedMatrix& matrix);

    // Row `row` as blocks of the matrix' type. Any thread.
    void make(std::int64_t row, std::byte* out) const;

  private:
    explicit QuantisedRows(const QuantisedMatrix& matrix) : matrix_(matrix) {}
    base::Status check_zeros() const;
    void make_fp8(std::int64_t row, std::byte* out) const;
    void make_int4(std::int64_t row, std::byte* out) const;
    void make_q8_0(std::int64_t row, std::byte* out) const;
    void read_nibbles(std::int64_t row, std::int64_t col, std::array<std::uint8_t, 32>& to) const;
    std::int64_t scale_index(std::int64_t row, std::int64_t col) const;
    unsigned zero_of(std::int64_t row, std::int64_t group) const;

    QuantisedMatrix matrix_;
    std::vector<std::byte> weights_;
    std::vector<std::byte> scales_;
    std::vector<std::byte> zeros_;
};

}  // namespace helix::model
