// Blocks of nibbles, which lie first in a panel: [blocks][16 lanes][16]. Included by dot_FORMAT.glsl of all formats that have
// these.

// Of one block, as it lies in memory.
struct RawBlock {
    uvec4 nibbles;
};

RawBlock load_raw(uint panel, uint lane, uint block) {
    return RawBlock(load4(panel + 64 * block + 4 * lane));
}
