#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "logits.glsl"

// A workgroup chooses the n_top greatest logits of a row, one after the other: the best of all pieces' best, in whose
// place comes the next of its piece. A lane has the pieces that are equal to it modulo 256.
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    Floats logits;    // [rows, vocab]
    Words keys;       // [rows, pieces]
    Words tokens;     // [rows, pieces]
    Words broken;     // [rows, pieces], kNoToken: none
    Floats out_;      // [rows, 2 + 2 * n_top]: see ops::ReducedRowAt
    uint rows, vocab, n_top;
};

shared uint first_broken;

Ranked best_of_own(uint row, uint pieces) {
    Ranked best = kNothing;
    for (uint piece = gl_LocalInvocationIndex; piece < pieces; piece += 256u) {
        uint at = row * pieces + piece;
        best = better(best, Ranked(keys.v[at], tokens.v[at]));
    }
    return best;
}

// Of the piece the best that comes after what was taken last.
Ranked next_of_piece(uint row, uint piece, Ranked taken) {
    uint token = piece * kPiece + gl_LocalInvocationIndex;
    Ranked own = kNothing;
    if (token < vocab) {
        Ranked here = Ranked(key_of(logits.v[row * vocab + token]), token);
        if (is_better(taken, here)) own = here;
    }
    return best_of_all(own);
}

void find_broken(uint row, uint pieces) {
    uint wrong = kNoToken;
    for (uint piece = gl_LocalInvocationIndex; piece < pieces; piece += 256u)
        wrong = min(wrong, broken.v[row * pieces + piece]);
    if (gl_LocalInvocationIndex == 0u) first_broken = kNoToken;
    barrier();
    atomicMin(first_broken, wrong);
    barrier();
}

void main() {
    uint pieces = pieces_of(vocab);
    uint self = gl_LocalInvocationIndex;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint to = row * (2u + 2u * n_top);
        find_broken(row, pieces);
        if (self == 0u) {
            out_.v[to] = first_broken == kNoToken ? -1.0 : float(first_broken);
            out_.v[to + 1u] = 0.0;
        }
        Ranked own = best_of_own(row, pieces);
        for (uint n = 0u; n < n_top; ++n) {
            Ranked best = best_of_all(own);
            if (self == 0u) {
                out_.v[to + 2u + n] = logits.v[row * vocab + best.token];
                out_.v[to + 2u + n_top + n] = float(best.token);
            }
            uint piece = best.token / kPiece;
            Ranked next = next_of_piece(row, piece, best);
            if (piece % 256u == self) {
                keys.v[row * pieces + piece] = next.key;
                tokens.v[row * pieces + piece] = next.token;
                own = best_of_own(row, pieces);
            }
        }
    }
}
