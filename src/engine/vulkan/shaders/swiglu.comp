#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
const uint kLanes = 128u;
const uint kQuantiseLanes = kLanes;
#include "quantise_fours.glsl"

layout(local_size_x = 128) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Fours { vec4 v[]; };
// gate as it becomes, and, where kQuantises, as int8 too: then count is a multiple of 32.
layout(constant_id = 0) const uint kQuantises = 0;
// 1: there are many elements, a multiple of four, and a lane has four at a time; 0: it has one.
layout(constant_id = 1) const uint kMany = 0;
layout(push_constant, scalar) uniform Push {
    Floats gate, up;
    Blocks blocks;
    uint count;
};
// What the gate is put through: 0, SiLU; 1, GELU; 2, SiLU of clamped numbers (ops/clamped_swiglu.h);
// 3, ReLU; 4, GELU (ops/gelu.h), without another factor; 5, the same with it.
layout(constant_id = 2) const uint kActivation = 0;
shared uvec4 made[kLanes / 4u];

float exact_gelu(float x) {
    if (is_nan(x)) return x;
    const float magnitude = uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
    const float a = magnitude > 14.0 ? 14.0 : magnitude;
    const float t = div(1.0, fma_exact(a, 0.25, 1.0));
    // The coefficients of t^9, t^8, ... of the CPU's kernel.
    float p = uintBitsToFloat(0xbe3fbb4du);
    p = fma_exact(p, t, uintBitsToFloat(0x3f4b717cu));
    p = fma_exact(p, t, uintBitsToFloat(0xbf93da1fu));
    p = fma_exact(p, t, uintBitsToFloat(0x3f1727b5u));
    p = fma_exact(p, t, uintBitsToFloat(0xbdb8ea30u));
    p = fma_exact(p, t, uintBitsToFloat(0xbd3281bbu));
    p = fma_exact(p, t, uintBitsToFloat(0x3e9180a2u));
    p = fma_exact(p, t, uintBitsToFloat(0x3ed50e52u));
    p = fma_exact(p, t, uintBitsToFloat(0x3f80624fu));
    p = fma_exact(p, t, uintBitsToFloat(0xc0138bbbu));
    precise const float square = a * a;
    precise const float share = a * t;
    precise const float tail = share * exp_of(fma_exact(square, -0.5, p));
    precise const float value = (x > 0.0 ? x : 0.0) - tail;
    return value;
}

float gated(float g, float u) {
    if (kActivation == 3) {
        precise const float product = (g > 0.0 ? g : 0.0) * u;
        return product;
    }
    if (kActivation == 4) return exact_gelu(g);
    if (kActivation == 5) {
        precise const float product = exact_gelu(g) * u;
        return product;
    }
    precise float minus = 0.0 - g;
    if (kActivation == 1) {
        precise float square = g * g;
        precise float along = g * fma_exact(square, 0.044715, 1.0);
        minus = along * -1.5957691;
    }
    if (kActivation == 2) {
        g = g > 7.0 ? 7.0 : g;
        u = u > 7.0 ? 7.0 : u;
        u = u < -7.0 ? -7.0 : u;
        precise float more = u + 1.0;
        precise float along = g * -1.702;
        u = more;
        minus = along;
    }
    precise float below = 1.0 + exp_of(minus);
    precise float value = div(g, below) * u;
    return value;
}

void make_few() {
    uint lane = gl_LocalInvocationIndex;
    for (uint first = gl_WorkGroupID.x * kLanes; first < count; first += gl_NumWorkGroups.x * kLanes) {
        uint i = first + lane;
        if (i < count) {
            float value = gated(gate.v[i], up.v[i]);
            gate.v[i] = value;
            if (kQuantises != 0) made[lane / 4u][lane % 4u] = floatBitsToUint(value);
        }
        if (kQuantises == 0) continue;
        barrier();
        if (lane < kLanes / 32u && first + 32u * lane < count) {
            uvec4 of_block[8];
            for (uint k = 0u; k < 8u; ++k) of_block[k] = made[8u * lane + k];
            quantise(of_block, blocks, first / 32u + lane);
        }
        barrier();
    }
}

void make_many() {
    uint fours = count / 4u;
    for (uint first = gl_WorkGroupID.x * kLanes; first < fours; first += gl_NumWorkGroups.x * kLanes) {
        uint four = first + gl_LocalInvocationIndex;
        vec4 value = Fours(gate).v[min(four, fours - 1u)];
        vec4 u = Fours(up).v[min(four, fours - 1u)];
        for (uint k = 0u; k < 4u; ++k) value[k] = gated(value[k], u[k]);
        if (four < fours) Fours(gate).v[four] = value;
        if (kQuantises != 0) quantise_four(floatBitsToUint(value), blocks, four, fours);
    }
}

void main() {
    if (kMany != 0) {
        make_many();
    } else {
        make_few();
    }
}
