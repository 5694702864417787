#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_q8_0.glsl"
#include "matmul_matrix.glsl"
