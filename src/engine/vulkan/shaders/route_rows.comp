#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// An invocation chooses the experts of one row. Scores are work space afterwards.
layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Push {
    Floats scores;
    Words chosen;
    Floats weights;
    uint rows, n_experts, n_used, normalise;
    float factor;
};

bool is_taken(uint at, uint n, uint expert) {
    for (uint i = 0u; i < n; ++i) {
        if (chosen.v[at + i] == expert) return true;
    }
    return false;
}

// Of those not taken the one with the highest score; of equal ones the lower, and no numbers last.
uint best_of(uint first, uint at, uint n) {
    int best = -1;
    for (uint e = 0u; e < n_experts; ++e) {
        if (is_taken(at, n, e)) continue;
        float score = scores.v[first + e];
        bool better = best < 0;
        if (!better && !is_nan(score)) {
            float top = scores.v[first + uint(best)];
            better = is_nan(top) || score > top;
        }
        if (better) best = int(e);
    }
    return uint(best);
}

void insert_sorted(uint at, uint n) {
    for (uint i = at + n; i > at && chosen.v[i - 1u] > chosen.v[i]; --i) {
        uint other = chosen.v[i - 1u];
        chosen.v[i - 1u] = chosen.v[i];
        chosen.v[i] = other;
    }
}

void main() {
    uint step = gl_NumWorkGroups.x * 32u;
    for (uint row = gl_GlobalInvocationID.x; row < rows; row += step) {
        uint first = row * n_experts;
        uint at = row * n_used;
        for (uint n = 0u; n < n_used; ++n) {
            chosen.v[at + n] = best_of(first, at, n);
            insert_sorted(at, n);
        }
        float top = uintBitsToFloat(0xff800000u);
        for (uint n = 0u; n < n_used; ++n) {
            float score = scores.v[first + chosen.v[at + n]];
            top = top < score ? score : top;
        }
        for (uint e = 0u; e < n_experts; ++e) {
            precise float shifted = scores.v[first + e] - top;
            scores.v[first + e] = exp_or_zero(shifted);
        }
        precise float sum = 0.0;
        uint count = normalise != 0u ? n_used : n_experts;
        for (uint n = 0u; n < count; ++n)
            sum = sum + scores.v[first + (normalise != 0u ? chosen.v[at + n] : n)];
        for (uint n = 0u; n < n_used; ++n) {
            precise float weight = div(scores.v[first + chosen.v[at + n]], sum) * factor;
            weights.v[at + n] = weight;
        }
    }
}
