#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Words x, y, visit_row;
    uint visits, width;
};

void main() {
    for (uint visit = gl_WorkGroupID.x; visit < visits; visit += gl_NumWorkGroups.x) {
        uint source = visit_row.v[visit] * width;
        for (uint i = gl_LocalInvocationIndex; i < width; i += 128u) y.v[visit * width + i] = x.v[source + i];
    }
}
