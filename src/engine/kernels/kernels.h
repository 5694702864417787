#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/packed_matrix.h"

// The inner loops, compiled once for each instruction set from the same source (op_*_kernel.h). All
// variants give the same bits: integer sums are exact, and floats are combined in an order that
// does not depend on the vector width. No kernel's result for a row depends on the other rows.

namespace helix::engine::ops {

struct KvLayout;

// amx: avx512, with the tile unit where it pays.
enum class Isa { portable, avx2, avx512, amx };

const char* to_string(Isa isa);
bool supported(Isa isa);
Isa best_isa();

// 32 activations of a row as int8: x is about scale * q, |q| <= 127. A block with a NaN or an
// infinity in it has NaN as its scale. Everything that a kernel needs of a block lies together.
struct QuantisedBlock {
    std::int8_t q[32];
    std::int32_t minus_sum;        // of q
    std::int32_t minus_upper_sum;  // of q[16 .. 31]
    float scale;
    float scaled_sum;  // scale times the sum of q
};

struct MatmulInput {
    const float* floats = nullptr;              // [rows, cols], for formats that take floats
    const QuantisedBlock* quantised = nullptr;  // [rows, cols / 32], for the others
    std::int64_t rows = 0;
};

struct MatmulOutput {
    float* data = nullptr;    // [rows, stride]; column i is the matrix' row i
    std::int64_t stride = 0;  // floats
    bool accumulate = false;  // add to what is there
    float factor = 1;         // of the products, before they are added
};

// Panels [begin, end) of the matrix times every row of the input.
using MatmulKernel = void (*)(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                              const MatmulInput& input, const MatmulOutput& output);

constexpr int kAttentionHeadTile = 4;  // query heads that an attention kernel takes at a time

// One query row and one KV head: the query heads that share it, over positions [begin,
// n_positions).
struct AttentionTask {
    const float* q = nullptr;  // [n_heads, head_dim]
    float* out = nullptr;      // [n_heads, head_dim]
    int n_heads = 0;
    int head_dim = 0;
    int begin = 0;  // the first position that counts
    int n_positions = 0;
    float scale = 1;                          // of the scores
    float softcap = 0;                        // of what they are then; 0: none
    const float* sinks = nullptr;             // [n_heads], one more score of each; null: none
    const float* slopes = nullptr;            // [n_heads], as ops::Attention has them; null: none
    int position = 0;                         // the row's own
    const std::byte* const* pages = nullptr;  // page of each block, in order
    int block_size = 0;
    int kv_head = 0;
    const KvLayout* layout = nullptr;
};

struct Kernels {
    Isa isa;
    MatmulKernel matmul_f32, matmul_f16, matmul_bf16, matmul_q8_0, matmul_q4_0, matmul_q4_1,
        matmul_q5_0, matmul_q5_1, matmul_q2_k, matmul_q3_k, matmul_q4_k, matmul_q5_k, matmul_q6_k,
        matmul_iq4_nl, matmul_iq4_xs, matmul_mxfp4, matmul_fp8, matmul_int4;
    // Of formats with codes that have one scale for 32 columns, and two.
    MatmulKernel matmul_codes, matmul_half_codes;
    // x[n] -> blocks[n / 32]; n is a multiple of 32.
    void (*quantise_row)(const float* x, std::int64_t n, QuantisedBlock* blocks);
    // y = x / sqrt(mean(x^2) + epsilon) * weight
    void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float epsilon, float* y);
    // y = gate / (1 + exp(-gate)) * up; y may be gate.
    void (*swiglu)(const float* gate, const float* up, std::int64_t n, float* y);
    // y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight; y may be x.
    void (*layer_norm)(const float* x, const float* weight, std::int64_t n, float epsilon,
                       float* y);
    // y = gelu(gate) * up; y may be gate. See ops/geglu.h.
    void (*geglu)(const float* gate, const float* up, std::int64_t n, float* y);
    // The same with the exact GELU.
    void (*exact_geglu)(const float* gate, const float* up, std::int64_t n, float* y);
    // y = max(gate, 0) * up; y and up may be gate.
    void (*reglu)(const float* gate, const float* up, std::int64_t n, float* y);
    // y = gelu(x), see ops/gelu.h; y may be x.
    void (*gelu)(const float* x, std::int64_t n, float* y);
    // See ops/clamped_swiglu.h; y may be gate.
    void (*clamped_swiglu)(const float* gate, const float* up, std::int64_t n, float* y);
    // y = factor * x, and cap * tanh(y / cap) of it where the cap is above 0; y may be x.
    void (*scale_row)(const float* x, std::int64_t n, float factor, float cap, float* y);
    // y = exp((x - shift) * factor), 0 below e^-87; relative error under 2e-7.
    void (*exp_row)(const float* x, std::int64_t n, float shift, float factor, float* y);
    // y = 1 / (1 + exp(-x)); y may be x.
    void (*sigmoid_row)(const float* x, std::int64_t n, float* y);
    // Of every piece of ops::kLogitSegment logits, the last may be shorter: the greatest, or a NaN
    // where one of them is no number or infinite.
    void (*logit_tops)(const float* x, std::int64_t n, float* tops);
    // Of the same pieces the sum of exp(x - top), which is 0 below e^-87.
    void (*weight_sums)(const float* x, std::int64_t n, float top, float* sums);
    void (*to_half)(const float* x, std::int64_t n, std::uint16_t* y);
    // x[n] -> q[n], |q| <= 127; x is about the returned scale * q, to the nearest, ties to even. A
    // NaN or an infinity in x makes the scale NaN; magnitudes all below 1e-30 count as zeros.
    float (*quantise_kv)(const float* x, std::int64_t n, std::int8_t* q);
    void (*attention_f16)(const AttentionTask& task);
    void (*attention_bf16)(const AttentionTask& task);
    void (*attention_f32)(const AttentionTask& task);
    void (*attention_q8)(const AttentionTask& task);

    MatmulKernel matmul(model::TensorType type) const;
};

// The table of an instruction set that this machine has.
const Kernels& kernels(Isa isa);

}  // namespace helix::engine::ops
