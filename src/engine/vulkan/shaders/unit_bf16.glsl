// A unit of a float matrix: 16 bytes of one output.
#include "matmul_common.glsl"

const uint kUnitColumns = 8;

void load_unit(uint at, out float w[kUnitColumns]) {
    const uvec4 words = load4(at);
    for (uint i = 0; i < 4; ++i) {
        w[2 * i] = uintBitsToFloat(words[i] << 16);
        w[2 * i + 1] = uintBitsToFloat(words[i] & 0xffff0000);
    }
}
