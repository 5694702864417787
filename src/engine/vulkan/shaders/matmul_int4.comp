#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_int4.glsl"
#include "matmul_quantised.glsl"
#include "matmul.glsl"
