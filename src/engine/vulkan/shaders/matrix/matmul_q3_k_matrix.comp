#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_q3_k.glsl"
#include "matmul_matrix.glsl"
