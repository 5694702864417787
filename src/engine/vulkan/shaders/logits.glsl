// Logits in their order. Workgroups are of 256 lanes.

// ops::kLogitSegment
const uint kPiece = 256u;
const uint kNoToken = 0xffffffffu;

uint pieces_of(uint n) {
    return (n + kPiece - 1u) / kPiece;
}

// Ordered as numbers are; the two zeros are one. NaNs are somewhere.
uint key_of(float logit) {
    uint bits = floatBitsToUint(logit);
    if ((bits << 1) == 0u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

bool is_finite(float logit) {
    return (floatBitsToUint(logit) & 0x7fffffffu) < 0x7f800000u;
}

struct Ranked {
    uint key;
    uint token;
};

// After every logit.
const Ranked kNothing = Ranked(0u, kNoToken);

bool is_better(Ranked a, Ranked b) {
    return a.key > b.key || (a.key == b.key && a.token < b.token);
}

Ranked better(Ranked a, Ranked b) {
    return is_better(b, a) ? b : a;
}

shared Ranked ranked[256];

// The best of all lanes'; every lane gets it.
Ranked best_of_all(Ranked own) {
    uint self = gl_LocalInvocationIndex;
    ranked[self] = own;
    barrier();
    for (uint apart = 128u; apart > 0u; apart >>= 1) {
        if (self < apart) ranked[self] = better(ranked[self], ranked[self + apart]);
        barrier();
    }
    Ranked best = ranked[0];
    barrier();
    return best;
}
