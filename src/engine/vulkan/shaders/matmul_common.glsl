#include "numerics.glsl"
#include "matmul_params.glsl"
#include "weights.glsl"

layout(local_size_x = 16, local_size_y = 16) in;
layout(constant_id = 0) const uint kRows = 1;  // of a tile, up to kMaxRows
