#version 450
#extension GL_GOOGLE_include_directive : require
#include "unit_f32.glsl"
#include "matmul_tiled_float.glsl"
