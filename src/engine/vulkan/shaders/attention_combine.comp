#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Adds up the chunks that workgroups of attention.comp have left in partials: a workgroup for each query head (x), row
// (y) and 128 dimensions (z), a lane for each dimension. What the chunks are multiplied by does not depend on values:
// lanes find it side by side, one chunk each. The values alone are added up one chunk after the other.
#include "attention_common.glsl"

// Whether the result is made as int8, too: then head_dim is a multiple of 32.
layout(constant_id = 0) const uint kQuantises = 0;
// 1: heads have sinks.
layout(constant_id = 1) const uint kSinks = 0;

const uint kAhead = 16;  // chunks whose values are read before the first of them is added

// Of the chunks so far and of those that lanes have: the largest score up to each.
shared float tops[kChunkPositions];
// Of each lane's chunk: its two factors and its sum of weights.
shared vec3 steps[kChunkPositions];
shared uvec4 made[kChunkPositions / 4];  // the bits of the result

// The largest of `before` and of the tops up to the lane's own, for `count` lanes that have one.
void find_tops_so_far(uint lane, uint count, float before, float own) {
    tops[lane] = lane == 0 && before > own ? before : own;
    for (uint n = 1; n < count; n *= 2) {
        barrier();
        const float other = tops[lane < n ? lane : lane - n];
        barrier();
        if (lane >= n && other > tops[lane]) tops[lane] = other;
    }
    barrier();
}

// Fills steps with what chunks from `chunk` on, one for a lane, are added with. Returns the largest score so far.
float find_steps(uint lane, uint chunk, uint count, float before) {
    const bool has = lane < count;
    const uint at = partial_at(gl_WorkGroupID.y, gl_WorkGroupID.x, chunk + (has ? lane : 0));
    const Softmax own = Softmax(params.partials.v[at], params.partials.v[at + 1]);
    find_tops_so_far(lane, count, before, own.top);
    if (has) {
        const Factors factors = factors_of(lane == 0 ? before : tops[lane - 1], own.top, tops[lane]);
        steps[lane] = vec3(factors.so_far, factors.next, own.sum);
    }
    const float top = tops[count - 1];
    barrier();
    return top;
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint d = gl_WorkGroupID.z * kChunkPositions + lane;
    const uint read = min(d, params.head_dim - 1);  // lanes without a dimension read another's
    Row row = params.rows.v[gl_WorkGroupID.y];
    const uint chunks = (row.end - 1) / kChunkPositions - row.begin / kChunkPositions + 1;
    const uint first = partial_at(gl_WorkGroupID.y, gl_WorkGroupID.x, 0);
    float top = params.partials.v[first];
    float sum = params.partials.v[first + 1];
    float values = params.partials.v[first + 2 + read];
    for (uint chunk = 1; chunk < chunks; chunk += kChunkPositions) {
        const uint count = min(kChunkPositions, chunks - chunk);
        top = find_steps(lane, chunk, count, top);
        for (uint c = 0; c < count; c += kAhead) {
            float next[kAhead];
            [[unroll]] for (uint i = 0; i < kAhead; ++i) {
                const uint at = first + (chunk + min(c + i, count - 1)) * (params.head_dim + 2);
                next[i] = params.partials.v[at + 2 + read];
            }
            [[unroll]] for (uint i = 0; i < kAhead; ++i) {
                if (c + i >= count) continue;
                const vec3 step = steps[c + i];
                values = add_next(values, next[i], Factors(step.x, step.y));
                sum = add_next(sum, step.z, Factors(step.x, step.y));
            }
        }
        barrier();  // steps are written again
    }
    const Softmax total = Softmax(top, sum);
    float factor = last_factor(total);
    if (kSinks != 0) factor = last_factor_with(total, params.sinks.v[gl_WorkGroupID.x]);
    precise const float result = values * factor;
    const uint head = (row.row * params.n_heads + gl_WorkGroupID.x) * params.head_dim;
    if (d < params.head_dim) params.out_.v[head + d] = result;
    if (kQuantises == 0) return;
    made[lane / 4][lane % 4] = floatBitsToUint(result);
    barrier();
    const uint begin = gl_WorkGroupID.z * kChunkPositions + 32 * lane;  // of the lane's block
    if (lane >= kChunkPositions / 32 || begin >= params.head_dim) return;
    uvec4 of_block[8];
    [[unroll]] for (uint k = 0; k < 8; ++k) of_block[k] = made[8 * lane + k];
    quantise(of_block, params.blocks, (head + begin) / 32);
}
