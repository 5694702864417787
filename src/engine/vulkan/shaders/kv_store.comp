#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A workgroup stores one head of one row, its key or its value, in its page (ops/kv_layout.h).
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kType = 0u;  // 0 f16, 1 bf16, 2 f32, 3 q8
layout(push_constant, scalar) uniform Push {
    Floats keys, values;
    Pages pages;  // of each row
    Words slots;  // of each row in its page
    uint rows, n_heads, head_dim, positions, dims;
    uint head_keys, head_values;  // bytes from one head's to the next
};
shared uint tops[64];

uint element_bytes() {
    return kType == 3u ? 1u : (kType == 2u ? 4u : 2u);
}

// Magnitudes of floats are ordered as their bits are.
uint largest_magnitude(Floats x, uint first) {
    uint lane = gl_LocalInvocationIndex;
    uint top = 0u;
    for (uint d = lane; d < head_dim; d += 64u) top = max(top, floatBitsToUint(x.v[first + d]) & 0x7fffffffu);
    barrier();
    tops[lane] = top;
    barrier();
    for (uint apart = 32u; apart > 0u; apart >>= 1) {
        if (lane < apart) tops[lane] = max(tops[lane], tops[lane + apart]);
        barrier();
    }
    return tops[0];
}

void store(Chars page, uint at, float value, float inverse) {
    if (kType == 0u) {
        Shorts(page).v[at / 2u] = uint16_t(float_to_half(value));
    } else if (kType == 1u) {
        Shorts(page).v[at / 2u] = uint16_t(float_to_bfloat(value));
    } else if (kType == 2u) {
        Floats(page).v[at / 4u] = value;
    } else {
        precise float scaled = value * inverse;
        page.v[at] = int8_t(int(roundEven(scaled)));
    }
}

// n values from `first` on; element d goes to byte at + d * step. q8: the scale goes to byte `scale_at`.
void store_head(Floats x, uint first, Chars page, uint at, uint step, uint scale_at) {
    float inverse = 0.0;
    if (kType == 3u) {
        uint top = largest_magnitude(x, first);
        float largest = uintBitsToFloat(top);
        bool broken = top >= 0x7f800000u;
        bool zero = largest < 1e-30;
        if (!broken && !zero) inverse = div(127.0, largest);
        float scale = broken ? uintBitsToFloat(0x7fc00000u) : (zero ? 0.0 : div(largest, 127.0));
        if (gl_LocalInvocationIndex == 0u) Floats(page).v[scale_at / 4u] = scale;
        if (broken || zero) {
            for (uint d = gl_LocalInvocationIndex; d < head_dim; d += 64u) page.v[at + d * step] = int8_t(0);
            return;
        }
    }
    for (uint d = gl_LocalInvocationIndex; d < head_dim; d += 64u)
        store(page, at + d * step, x.v[first + d], inverse);
}

void main() {
    uint bytes = element_bytes();
    uint scales = kType == 3u ? 4u * positions : 0u;
    uint values_at = n_heads * head_keys;
    for (uint i = gl_WorkGroupID.x; i < 2u * rows * n_heads; i += gl_NumWorkGroups.x) {
        uint head = i / 2u % n_heads;
        uint row = i / 2u / n_heads;
        uint slot = slots.v[row];
        uint first = (row * n_heads + head) * head_dim;
        Chars page = pages.v[row];
        if ((i & 1u) == 0u) {
            uint at = head * head_keys;
            uint scale_at = at + head_keys - scales + 4u * slot;
            store_head(keys, first, page, at + slot * bytes, positions * bytes, scale_at);
        } else {
            uint at = values_at + head * head_values;
            uint scale_at = at + head_values - scales + 4u * slot;
            store_head(values, first, page, at + slot * dims * bytes, bytes, scale_at);
        }
    }
}
