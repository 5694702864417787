// A unit of a matrix of FP8: 16 bytes of one output, each a half whose bits are moved (model/quant/fp8.h). After all units of
// a panel come the scales of its segments: [segments][16 lanes], floats.
#include "matmul_common.glsl"
#define HELIX_SEGMENT_SCALES

const uint kUnitColumns = 16;

float load_segment_scale(uint panel, uint lane, uint segment) {
    return uintBitsToFloat(params.weights.v[panel + 4 * params.cols + 16 * segment + lane]);
}

void load_unit(uint at, out float w[kUnitColumns]) {
    const uvec4 words = load4(at);
    for (uint i = 0; i < kUnitColumns; ++i) {
        const uint bits = bitfieldExtract(words[i / 4], int(8 * (i % 4)), 8);
        w[i] = half_to_float((bits & 0x7f) << 7 | (bits & 0x80) << 8);
    }
}
