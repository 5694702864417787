// A block of 32 activations as int8 by eight lanes that lie side by side: a lane has four of them. Quicker than a lane for
// each block (quantise.glsl) where there are many: what lanes read and write lies side by side. Included after
// kQuantiseLanes, the workgroup's lanes.
#include "quantise.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer BlockWords {
    uint v[];
};

// What the lanes of a block have to know of each other.
shared uint four_tops[kQuantiseLanes];
shared int four_sums[kQuantiseLanes];

// x: the bits of four activations, which are number `four` of all `count`; beyond them nothing is stored. All lanes of a
// workgroup call it together, for fours from a multiple of eight on.
void quantise_four(uvec4 x, Blocks blocks, uint four, uint count) {
    const uint lane = gl_LocalInvocationIndex;
    const uint first = lane / 8 * 8;  // lane of the block
    barrier();                        // of the blocks before
    four_tops[lane] = largest(x);
    barrier();
    uint top = 0;
    for (uint i = 0; i < 8; ++i) top = max(top, four_tops[first + i]);
    uint word = 0;
    int sum = 0;
    const float inverse = inverse_scale(top);
    if (inverse != 0.0) word = pack(x, inverse, sum);
    four_sums[lane] = sum;
    barrier();
    if (four >= count) return;
    const uint block = four / 8;
    BlockWords(blocks).v[12 * block + four % 8] = word;
    if (lane != first) return;
    int sums[2] = int[](0, 0);
    for (uint i = 0; i < 8; ++i) sums[i / 4] += four_sums[first + i];
    blocks.v[3 * block + 2] = scale_of_block(top, sums[0], sums[1]);
}
