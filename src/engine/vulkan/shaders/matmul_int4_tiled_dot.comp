#version 450
#extension GL_GOOGLE_include_directive : require
#define HELIX_INTEGER_DOT
#include "dot_int4.glsl"
#include "matmul_tiled_quantised.glsl"
