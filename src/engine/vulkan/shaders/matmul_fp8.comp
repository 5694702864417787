#version 450
#extension GL_GOOGLE_include_directive : require
#include "unit_fp8.glsl"
#include "matmul_float.glsl"
#include "matmul.glsl"
