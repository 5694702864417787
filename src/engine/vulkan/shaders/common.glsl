// What shaders see of memory: addresses, behind which values lie as C++ lays them out.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Shorts { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Chars { int8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pages { Chars v[]; };

#include "numerics.glsl"
