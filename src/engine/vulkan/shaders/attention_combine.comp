#version 450
#extension GL_GOOGLE_include_directive : require
// Adds up the chunks that workgroups of attention.comp have left in partials: a workgroup for each row and query head,
// a lane for each dimension.
#include "attention_common.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.x;
    Row row = params.rows.v[gl_WorkGroupID.y];
    const uint out_at = (row.row * params.n_heads + head) * params.head_dim;
    const uint chunks = (row.end - 1) / kChunkPositions - row.begin / kChunkPositions + 1;
    for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
        uint at = partial_at(gl_WorkGroupID.y, head, 0);
        Softmax total = Softmax(params.partials.v[at], params.partials.v[at + 1]);
        float values = params.partials.v[at + 2 + d];
        for (uint chunk = 1; chunk < chunks; ++chunk) {
            at += params.head_dim + 2;
            const Factors factors =
                add_chunk(total, Softmax(params.partials.v[at], params.partials.v[at + 1]));
            values = add_values(values, params.partials.v[at + 2 + d], factors);
        }
        precise const float result = values * div(1.0, total.sum);
        params.out_.v[out_at + d] = result;
    }
}
