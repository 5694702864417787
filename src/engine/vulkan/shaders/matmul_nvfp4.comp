#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_nvfp4.glsl"
#include "matmul_quantised.glsl"
#include "matmul.glsl"
