#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A workgroup prepares one head of one row at a time: bias, norm, rotation.
layout(local_size_x = 64) in;
#include "rms_norm.glsl"
layout(push_constant, scalar) uniform Push {
    Floats x, bias, norm, angles;
    uint rows, n_heads, head_dim, rope_dim;
    float epsilon;
    uint has_bias, has_norm, rotate, adjacent;
};

void rotate_pairs(uint first, uint row) {
    uint pairs = rope_dim / 2u;
    uint step = adjacent != 0u ? 2u : 1u;
    uint apart = adjacent != 0u ? 1u : pairs;
    for (uint i = gl_LocalInvocationIndex; i < pairs; i += 64u) {
        float cosine = angles.v[row * rope_dim + 2u * i];
        float sine = angles.v[row * rope_dim + 2u * i + 1u];
        float a = x.v[first + i * step];
        float b = x.v[first + i * step + apart];
        precise float new_a = a * cosine - b * sine;
        precise float new_b = a * sine + b * cosine;
        x.v[first + i * step] = new_a;
        x.v[first + i * step + apart] = new_b;
    }
}

void main() {
    for (uint i = gl_WorkGroupID.x; i < rows * n_heads; i += gl_NumWorkGroups.x) {
        uint first = i * head_dim;
        uint head = i % n_heads;
        if (has_bias != 0u) {
            for (uint d = gl_LocalInvocationIndex; d < head_dim; d += 64u) {
                precise float value = x.v[first + d] + bias.v[head * head_dim + d];
                x.v[first + d] = value;
            }
            memoryBarrierBuffer();
            barrier();
        }
        if (has_norm != 0u) {
            float factor = rms_factor(x, first, head_dim, epsilon);
            for (uint d = gl_LocalInvocationIndex; d < head_dim; d += 64u) {
                precise float value = x.v[first + d] * factor * norm.v[d];
                x.v[first + d] = value;
            }
            memoryBarrierBuffer();
            barrier();
        }
        if (rotate != 0u) rotate_pairs(first, i / n_heads);
    }
}
