#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/ops/kv_layout.h"
#include "model/model_config.h"
#include "model/tensor_type.h"

// What operators make of numbers drawn from a seed, on any device: the same of all that keep to
// docs/numerics.md, but for the payloads of NaNs. Outputs are poisoned before. Errors are the
// device's.

namespace helix::engine::proof {

using Values = base::Result<std::vector<float>>;

struct MatmulCase {
    model::TensorType type;
    std::int64_t rows, outputs, cols;  // cols: rounded up to whole blocks
    // Among the rows blocks of zeros, of tiny numbers, with an infinity and with a NaN. Takes at
    // least 4 rows of 128 columns.
    bool hostile = false;
};
// The products, and the same added to what was there.
Values matmul_values(Device& device, const MatmulCase& c, std::uint64_t seed);

struct ExpertsCase {
    model::TensorType type;
    std::int64_t rows;
    int n_experts, n_used;
    std::int64_t outputs, cols;
};
// Routing, visits, their products and what these add up to.
Values experts_values(Device& device, const ExpertsCase& c, std::uint64_t seed);

struct RoutingCase {
    std::int64_t rows;
    int n_experts, n_used;
    bool normalise;
    bool sigmoid = false;          // then with a bias for the choice
    bool factors = false;          // of experts; then the sums take the place of what was there
    bool weighted_inputs = false;  // then without the bias
    int n_groups = 1, n_groups_used = 1;  // of experts; with the bias
};
// The sums that say which experts rows visit, in which order and with which weights, where scores
// are equal or no numbers.
Values routing_values(Device& device, const RoutingCase& c, std::uint64_t seed);

// Rows of two sequences: the last `rows` of `positions`.
struct AttentionCase {
    ops::KvType type;
    int n_heads, n_kv_heads, head_dim, block_size, positions;
    std::int64_t rows;
    std::int32_t window = 0;
    bool infinite = false;  // the keys of the first chunk, so that its weights are all zero
    float scale = 0;        // of scores; 0: the usual
    float softcap = 0;      // of scores; 0: none
    bool sinks = false;
    int rooms = 1;         // pages are made for so many times as many heads, in as many parts
    bool chunked = false;  // the window is a chunk
    bool both_ways = false;
    bool slopes = false;
};
Values attention_values(Device& device, const AttentionCase& c, std::uint64_t seed);

struct KvStoreCase {
    ops::KvType type;
    int n_kv_heads, head_dim, block_size;
    int rooms = 1;  // as of AttentionCase
};
// The bytes of pages into which rows were stored, each as a float: keys and values that round up
// and down, overflow, are subnormal, no numbers or all zero.
Values kv_store_values(Device& device, const KvStoreCase& c, std::uint64_t seed);

struct WidthCase {
    std::int64_t rows, width;
};
// Into another buffer, and in place; then what a quantised product makes of them, where the width
// is one of whole blocks.
Values rms_norm_values(Device& device, const WidthCase& c, std::uint64_t seed);
// With infinities and a NaN among the gates where there are more than 8; then as above.
Values swiglu_values(Device& device, const WidthCase& c, std::uint64_t seed);
// The same with clamped factors.
Values clamped_swiglu_values(Device& device, const WidthCase& c, std::uint64_t seed);
// The same with GELU.
Values geglu_values(Device& device, const WidthCase& c, std::uint64_t seed);
Values exact_geglu_values(Device& device, const WidthCase& c, std::uint64_t seed);
Values reglu_values(Device& device, const WidthCase& c, std::uint64_t seed);
Values gelu_values(Device& device, const WidthCase& c, std::uint64_t seed);
// Into another buffer, and in place.
Values layer_norm_values(Device& device, const WidthCase& c, std::uint64_t seed);
// With a factor alone, and with a cap; what is no number is among them where there are more than 8.
Values scale_rows_values(Device& device, const WidthCase& c, std::uint64_t seed);
// Of rows, and of the visits of five experts.
Values add_bias_values(Device& device, const WidthCase& c, std::uint64_t seed);
// With a factor and without one.
Values add_rows_values(Device& device, const WidthCase& c, std::uint64_t seed);
// Some ranges of at least 6 rows; the others stay as they are.
Values copy_rows_values(Device& device, const WidthCase& c, std::uint64_t seed);

struct RopeCase {
    std::int64_t rows;
    int n_heads, head_dim, rope_dim;
    bool bias, norm, rotate;
    model::RopePairs pairs;
};
Values rope_values(Device& device, const RopeCase& c, std::uint64_t seed);

}  // namespace helix::engine::proof
