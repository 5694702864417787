// A unit of a float matrix: 16 bytes of one output.
#include "matmul_common.glsl"

const uint kUnitColumns = 4;

void load_unit(uint at, out float w[kUnitColumns]) {
    const vec4 words = uintBitsToFloat(load4(at));
    for (uint i = 0; i < 4; ++i) w[i] = words[i];
}
