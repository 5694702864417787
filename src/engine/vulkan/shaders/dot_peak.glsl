#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

// As many dot products of four bytes as a device can do, with nothing else to wait for: eight chains in each lane,
// each product needing the one before.
layout(local_size_x = 128) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Results { int v[]; };
layout(push_constant, scalar) uniform Push {
    Results results;
    uint rounds;
};

void main() {
    uint lane = gl_GlobalInvocationID.x;
    uint by = lane * 0x9e3779b9u + 0x01020304u;
    int sums[8];
    [[unroll]] for (int i = 0; i < 8; ++i) sums[i] = int(lane) * 8 + i + 1;
    for (uint round = 0u; round < rounds; ++round) {
        [[unroll]] for (int i = 0; i < 8; ++i) sums[i] = add_dot(sums[i], uint(sums[i]), by);
    }
    int all = 0;
    [[unroll]] for (int i = 0; i < 8; ++i) all ^= sums[i];
    results.v[lane] = all;
}
