// What matmul shaders are told, and the memory that they work on. Addresses are in words of 32 bits from a
// buffer's begin.
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Words4 {
    uvec4 v[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Words2 {
    uvec2 v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words {
    uint v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Ints {
    int v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
    float v[];
};

layout(push_constant, std430) uniform Params {
    Words weights;   // as DevicePanels lays them out
    Words4 input_;   // rows of floats, or of quantised blocks of three uvec4
    Floats y;        // [rows, outputs]
    Ints first_visit;  // [experts + 1]: the rows of each expert; not read where there are no experts
    uint rows;
    uint cols;
    uint outputs;
    uint panel_words;  // of 16 outputs
    uint experts;      // 0: one matrix for all rows
    uint accumulate;   // 1: adds to what is in y
#ifdef HELIX_GRID_WORDS
    Words grid;  // so many
#endif
#ifdef HELIX_FACTORS
    Floats factors;  // of the products, one for each expert
#endif
} params;
