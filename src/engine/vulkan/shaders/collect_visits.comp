#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Sorts the visits by expert, then by row. One workgroup; an invocation collects the visits of every 256th expert.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Words chosen, visit_of, visit_expert, first_visit;
    uint visits, n_experts;
};

void main() {
    uint lane = gl_LocalInvocationIndex;
    for (uint e = lane; e < n_experts; e += 256u) {
        uint count = 0u;
        for (uint i = 0u; i < visits; ++i) count += uint(chosen.v[i] == e);
        first_visit.v[e + 1u] = count;
    }
    memoryBarrierBuffer();
    barrier();
    if (lane == 0u) {
        first_visit.v[0] = 0u;
        for (uint e = 0u; e < n_experts; ++e) first_visit.v[e + 1u] += first_visit.v[e];
    }
    memoryBarrierBuffer();
    barrier();
    for (uint e = lane; e < n_experts; e += 256u) {
        uint visit = first_visit.v[e];
        for (uint i = 0u; i < visits; ++i) {
            if (chosen.v[i] != e) continue;
            visit_of.v[i] = visit;
            visit_expert.v[visit] = e;
            ++visit;
        }
    }
}
