#version 450
#extension GL_GOOGLE_include_directive : require
#include "unit_bf16.glsl"
#include "matmul_tiled_float.glsl"
