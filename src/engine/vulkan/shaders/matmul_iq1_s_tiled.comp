#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_iq1_s.glsl"
#include "matmul_tiled_quantised.glsl"
