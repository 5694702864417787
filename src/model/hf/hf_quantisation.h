#pragma once

#include <cstdint>

#include "base/result.h"
#include "spec/json_place.h"

namespace helix::model {

// What wrote a folder's quantised matrices (hf_quantised.h says how each lies in its file).
enum class HfQuantMethod {
    none,
    fp8,
    gptq,
    awq,
    compressed,  // compressed-tensors: FP8, or whole numbers of four bits
};

// What quantization_config says of them. Which modules are quantised is seen from their tensors.
struct HfQuantisation {
    HfQuantMethod method = HfQuantMethod::none;
    std::int64_t bits = 4;        // of whole numbers: 4, or 8 of GPTQ
    bool zeros_less_one = false;  // GPTQ's first format, whose zeros are one less than they count
    bool may_be_ordered = false;  // columns may be in groups out of order
    std::int64_t group_size = 0;  // columns of a scale; -1: all of a row; 0: as the scales' shape
    std::int64_t block_rows = 0;  // of an FP8 scale; 0: of a row or of the matrix
    std::int64_t block_cols = 0;
};

// root: of config.json. Errors name the key and what was expected: what would change the result and
// is not supported.
base::Result<HfQuantisation> read_hf_quantisation(const spec::JsonPlace& root);

}  // namespace helix::model
