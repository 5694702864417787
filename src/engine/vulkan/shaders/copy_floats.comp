#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
// Copies within the device's memory, 16 bytes a lane at a time and four of these under way.
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quads {
    uvec4 v[];
};
layout(push_constant, std430) uniform Push {
    Quads from;
    Quads to;
    uint count;  // of 16 bytes
} push;

void main() {
    const uint step = gl_NumWorkGroups.x * 256;
    for (uint first = gl_GlobalInvocationID.x; first < push.count; first += 4 * step) {
        uvec4 quads[4];
        [[unroll]] for (uint i = 0; i < 4; ++i)
            if (first + i * step < push.count) quads[i] = push.from.v[first + i * step];
        [[unroll]] for (uint i = 0; i < 4; ++i)
            if (first + i * step < push.count) push.to.v[first + i * step] = quads[i];
    }
}
