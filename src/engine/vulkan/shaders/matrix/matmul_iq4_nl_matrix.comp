#version 450
#extension GL_GOOGLE_include_directive : require
#include "dot_iq4_nl.glsl"
#include "matmul_matrix.glsl"
