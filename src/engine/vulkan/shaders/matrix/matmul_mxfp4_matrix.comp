#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_mxfp4.glsl"
#include "matmul_matrix.glsl"
