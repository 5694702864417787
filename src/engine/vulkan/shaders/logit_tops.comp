#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "logits.glsl"

// Of every piece of a row the greatest logit and its token, and the first token whose logit is not finite. Sixteen
// lanes take the tokens that are equal modulo 16; a workgroup has sixteen pieces.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Floats logits;    // [rows, vocab]
    Words keys;       // [rows, pieces]
    Words tokens;     // [rows, pieces]
    Words broken;     // [rows, pieces], kNoToken: none
    uint rows, vocab;
};

shared uint first_broken[256];

void main() {
    uint pieces = pieces_of(vocab);
    uint self = gl_LocalInvocationIndex;
    uint lane = self % 16u;
    for (uint first = gl_WorkGroupID.x * 16u; first < rows * pieces; first += gl_NumWorkGroups.x * 16u) {
        uint piece = first + self / 16u;
        bool inside = piece < rows * pieces;
        Ranked best = kNothing;
        uint wrong = kNoToken;
        if (inside) {
            uint row = piece / pieces;
            uint begin = (piece % pieces) * kPiece;
            uint end = min(begin + kPiece, vocab);
            for (uint token = begin + lane; token < end; token += 16u) {
                float logit = logits.v[row * vocab + token];
                best = better(best, Ranked(key_of(logit), token));
                if (wrong == kNoToken && !is_finite(logit)) wrong = token;
            }
        }
        ranked[self] = best;
        first_broken[self] = wrong;
        barrier();
        for (uint apart = 8u; apart > 0u; apart >>= 1) {
            if (lane < apart) {
                ranked[self] = better(ranked[self], ranked[self + apart]);
                first_broken[self] = min(first_broken[self], first_broken[self + apart]);
            }
            barrier();
        }
        if (inside && lane == 0u) {
            keys.v[piece] = ranked[self].key;
            tokens.v[piece] = ranked[self].token;
            broken.v[piece] = first_broken[self];
        }
        barrier();
    }
}
