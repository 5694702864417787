#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_nvfp4.glsl"
#include "matmul_tiled_quantised.glsl"
