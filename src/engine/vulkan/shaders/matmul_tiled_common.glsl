// Included by matmul_tiled_quantised.glsl and matmul_tiled_float.glsl.
#extension GL_EXT_control_flow_attributes : require
#include "matmul_rows.glsl"

layout(constant_id = 1) const uint kPanels = 1;  // of a workgroup, up to kMostEach

const uint kMostEach = 4;          // panels, and rows of a lane
const uint kRowsEach = kRows / 16;  // kRows is 16, 32 or 64
const uint kTileOutputs = kPanelOutputs * kPanels;
const uint kLanes = 256;  // of a workgroup
