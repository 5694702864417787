#pragma once

#include <cstddef>
#include <cstdint>

#include "model/tensor_type.h"

namespace helix::engine::ops {

// What the engine must know of a weight format, but for its matmul kernel (format_<name>_kernel.h).
// One file each: format_<name>.cc.
struct Format {
    const char* name;
    int block_cols;        // elements of a block in the file, and columns of a packed unit
    int block_bytes;       // in the file
    int unit_bytes;        // packed, for 16 rows
    bool quantised_input;  // the kernel reads int8 activations
    // blocks: the same block of 16 rows.
    void (*pack_unit)(const std::byte* const* blocks, std::byte* out);
};

// nullptr for a type that we do not know.
const Format* find_format(model::TensorType type);

const Format& f32_format();
const Format& f16_format();
const Format& bf16_format();
const Format& q8_0_format();
const Format& q4_0_format();
const Format& q4_1_format();
const Format& q5_0_format();
const Format& q5_1_format();
const Format& q2_k_format();
const Format& q3_k_format();
const Format& q4_k_format();
const Format& q5_k_format();
const Format& q6_k_format();
const Format& iq4_nl_format();
const Format& iq4_xs_format();
const Format& mxfp4_format();
const Format& iq2_xxs_format();
const Format& iq2_xs_format();
const Format& iq2_s_format();
const Format& iq3_xxs_format();
const Format& iq3_s_format();
const Format& tq1_0_format();
const Format& tq2_0_format();
const Format& iq1_s_format();
const Format& iq1_m_format();
const Format& nvfp4_format();
const Format& fp8_format();
const Format& int4_format();

}  // namespace helix::engine::ops
