#extension GL_EXT_buffer_reference : require
#include "numerics.glsl"
#include "quantise.glsl"

// Positions of a chunk, and lanes of a workgroup: one for each.
const uint kChunkPositions = 128;
const uint kMaxHeadDim = 1024;

layout(local_size_x = 128) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words {
    uint v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
    float v[];
};
// In a struct: glslang takes a bare array of addresses for one of descriptors.
struct Page {
    Words words;
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Pages {
    Page v[];
};
// One row: it attends to positions [begin, end) of its sequence.
struct Row {
    Pages pages;
    uint row;
    uint begin;
    uint end;
    uint position;  // its own
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Rows {
    Row v[];
};
// Rows of one sequence that follow each other, from one of Rows on.
struct Tile {
    uint first;
    uint rows;
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Tiles {
    Tile v[];
};
layout(push_constant, std430) uniform Params {
    Rows rows;
    Tiles tiles;
    Floats q;         // [rows, n_heads, head_dim]
    Floats out_;      // [rows, n_heads, head_dim]
    Floats partials;  // [rows of the call, n_heads, chunks]: maximum, sum of weights, [head_dim] sums of values
    uint n_heads;
    uint group;  // query heads of a KV head
    uint head_dim;
    uint block_size;
    uint positions;    // from one dimension of a head's keys to the next
    uint dims;         // from one position of a head's values to the next
    uint head_keys;    // words of a head's keys
    uint head_values;  // words of a head's values
    uint values;       // words before a page's values
    uint chunks;       // that partials have room for
    float scale;
    float softcap;  // of scores, where attention.comp caps them
    Blocks blocks;  // of out_ as int8, where attention_combine.comp is to make them
    Floats sinks;   // [n_heads], where kSinks
    Floats slopes;  // [n_heads], where attention.comp's kSlopes
} params;

uint partial_at(uint row, uint head, uint chunk) {
    return ((row * params.n_heads + head) * params.chunks + chunk) * (params.head_dim + 2);
}

// Of a chunk, or of those that were added up so far: the largest score, the sum of weights relative to it.
struct Softmax {
    float top;
    float sum;
};
// What to multiply the sums so far by, and those of the next chunk.
struct Factors {
    float so_far;
    float next;
};

// `top` is the larger one of the two.
Factors factors_of(float so_far, float next, float top) {
    precise const float minus_so_far = so_far - top;
    precise const float minus_next = next - top;
    return Factors(exp_or_zero(minus_so_far), exp_or_zero(minus_next));
}

// Of sums of weights, or of values.
float add_next(float so_far, float next, Factors factors) {
    precise const float scaled = so_far * factors.so_far;
    return fma_exact(next, factors.next, scaled);
}

// What weighted values are multiplied by at the end.
float last_factor(Softmax total) {
    return div(1.0, total.sum);
}

// The same with a sink: as a chunk of one position whose values are zero.
float last_factor_with(Softmax total, float sink) {
    const float top = sink > total.top ? sink : total.top;
    const Factors factors = factors_of(total.top, sink, top);
    precise const float scaled = total.sum * factors.so_far;
    precise const float sum = scaled + factors.next;
    precise const float factor = div(1.0, sum) * factors.so_far;
    return factor;
}
