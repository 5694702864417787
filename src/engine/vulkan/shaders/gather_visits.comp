#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Words x, y;
    Floats weights;
    Words visit_of;
    uint visits, width, n_used, weighted;
};

void main() {
    for (uint at = gl_WorkGroupID.x; at < visits; at += gl_NumWorkGroups.x) {
        const uint source = at / n_used * width;
        const uint to = visit_of.v[at] * width;
        for (uint i = gl_LocalInvocationIndex; i < width; i += 128u) {
            uint bits = x.v[source + i];
            if (weighted != 0u) {
                precise const float product = weights.v[at] * uintBitsToFloat(bits);
                bits = floatBitsToUint(product);
            }
            y.v[to + i] = bits;
        }
    }
}
