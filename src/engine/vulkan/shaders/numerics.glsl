// Arithmetic with the same bits on every device: those of the CPU's kernels (engine/kernels). Vulkan promises correctly
// rounded sums and products alone; the rest is here. Every float is `precise`: nothing is contracted or reordered.
// Subnormal numbers are zeros, read and made.

// m * 2^exponent, to the nearest float, ties to even. m has 26 bits or more; its last one says whether anything
// that is not zero was cut off. What is below the least normal number once it has 24 bits is zero.
float compose(uint sign, uint m, int exponent) {
    int top = findMSB(m);
    int e = top + exponent;
    int shift = top - 23;
    uint kept = m >> shift;
    uint rest = m << (32 - shift);
    if (rest > 0x80000000u || (rest == 0x80000000u && (kept & 1u) != 0u)) ++kept;
    if (kept == 0x1000000u) {
        kept >>= 1;
        ++e;
    }
    if (e > 127) return uintBitsToFloat(sign | 0x7f800000u);
    if (e < -126) return uintBitsToFloat(sign);
    return uintBitsToFloat(sign | ((uint(e + 126) << 23) + kept));
}

bool is_nan(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

// The fraction of a normal number, in [2^23, 2^24), and its exponent: fraction * 2^(exponent - 23).
void split(uint magnitude, out uint fraction, out int exponent) {
    fraction = (magnitude & 0x7fffffu) | 0x800000u;
    exponent = int(magnitude >> 23) - 127;
}

// The bits of a number's magnitude; those of a subnormal one are none.
uint flushed_magnitude(uint bits) {
    const uint magnitude = bits & 0x7fffffffu;
    return magnitude < 0x800000u ? 0u : magnitude;
}

// a / b, correctly rounded. The device's quotient, which may be some units off, is mended in integers: its remainder
// fits 32 bits.
float div(float a, float b) {
    uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
    uint ua = flushed_magnitude(floatBitsToUint(a));
    uint ub = flushed_magnitude(floatBitsToUint(b));
    const uint infinity = 0x7f800000u;
    if (ua > infinity || ub > infinity || (ua == ub && (ua == 0u || ua == infinity)))
        return uintBitsToFloat(0x7fc00000u);
    if (ua == infinity || ub == 0u) return uintBitsToFloat(sign | infinity);
    if (ua == 0u || ub == infinity) return uintBitsToFloat(sign);
    uint ma, mb;
    int ea, eb;
    split(ua, ma, ea);
    split(ub, mb, eb);
    precise float estimate = float(ma) / float(mb) * 67108864.0;  // 2^26
    uint q = uint(estimate);
    int rest = int((ma << 26) - q * mb);
    int divisor = int(mb);
    while (rest < 0) {
        --q;
        rest += divisor;
    }
    while (rest >= divisor) {
        ++q;
        rest -= divisor;
    }
    return compose(sign, (q << 1) | uint(rest != 0), ea - eb - 27);
}

// The square root, correctly rounded; mended as a quotient is.
float square_root(float x) {
    uint u = floatBitsToUint(x);
    uint magnitude = flushed_magnitude(u);
    if (magnitude == 0u) return uintBitsToFloat(u & 0x80000000u);
    if (u == 0x7f800000u) return x;
    if (u > 0x7f800000u) return uintBitsToFloat(0x7fc00000u);
    uint m;
    int e;
    split(magnitude, m, e);
    // The root of m * 2^s, where e - 23 - s is even.
    bool odd = (e & 1) != 0;
    int s = odd ? 26 : 25;
    precise float estimate = odd ? sqrt(float(m)) * 8192.0 : sqrt(float(m << 1)) * 4096.0;
    uint root = uint(estimate);
    int rest = int((m << s) - root * root);
    while (rest < 0) {
        --root;
        rest += int(2u * root + 1u);
    }
    while (rest >= int(2u * root + 1u)) {
        rest -= int(2u * root + 1u);
        ++root;
    }
    return compose(0u, (root << 1) | uint(rest != 0), (e - 23 - s) / 2 - 1);
}

// a * b + c, rounded once.
#ifdef HELIX_EXACT_FMA
// The product is exact in doubles; their sum is rounded to odd (the last bit says that something was cut off), so that
// rounding it again is as rounding once.
float fma_exact(float a, float b, float c) {
    precise double p = double(a) * double(b);
    precise double d = double(c);
    precise double sum = p + d;
    precise double part = sum - p;
    precise double lost = (p - (sum - part)) + (d - part);
    uvec2 bits = unpackDouble2x32(sum);
    if ((bits.x & 1u) == 0u && (lost > 0.0LF || lost < 0.0LF)) {
        if ((lost > 0.0LF) == (sum > 0.0LF)) {
            bits.x |= 1u;
        } else {
            if (bits.x == 0u) --bits.y;
            --bits.x;
        }
    }
    precise float rounded = float(packDouble2x32(bits));
    return rounded;
}
#else
float fma_exact(float a, float b, float c) {
    precise float r = fma(a, b, c);
    return r;
}
#endif

// e^x as op_elementwise_kernel.h has it.
float exp_of(float x) {
    if (is_nan(x)) return x;
    x = x > 88.3 ? 88.3 : x;
    x = x < -87.3 ? -87.3 : x;
    precise float scaled = x * 1.44269504;
    float n = roundEven(scaled);
    float r = fma_exact(n, -0.693359375, x);
    r = fma_exact(n, 2.12194440e-4, r);
    // 1/720, 1/120, 1/24, 1/6
    float y = uintBitsToFloat(0x3ab60b61u);
    y = fma_exact(y, r, uintBitsToFloat(0x3c088889u));
    y = fma_exact(y, r, uintBitsToFloat(0x3d2aaaabu));
    y = fma_exact(y, r, uintBitsToFloat(0x3e2aaaabu));
    y = fma_exact(y, r, 0.5);
    y = fma_exact(y, r, 1.0);
    y = fma_exact(y, r, 1.0);
    return uintBitsToFloat(floatBitsToUint(y) + (uint(int(n)) << 23));
}

// e^x, and 0 where x is below the smallest argument of exp_of. What is no number is kept by a test of its bits: a device
// may take the comparison at the end for a maximum, which loses it.
float exp_or_zero(float x) {
    if (is_nan(x)) return x;
    float smallest = exp_of(-100.0);
    precise float y = exp_of(x) - smallest;
    return 0.0 > y ? 0.0 : y;
}

// IEEE binary16 and bfloat16, in integers: nearest, ties to even, subnormals kept.
uint float_to_half(float value) {
    uint bits = floatBitsToUint(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // >= 2^16
    uint kept = 0u;
    uint rest = 0u;
    if (magnitude >= 0x38800000u) {  // normal
        kept = (magnitude - 0x38000000u) >> 13;
        rest = magnitude << 19;
    } else if (magnitude >= 0x33000000u) {  // subnormal
        uint shift = 126u - (magnitude >> 23);
        uint full = (magnitude & 0x7fffffu) | 0x800000u;
        kept = full >> shift;
        rest = full << (32u - shift);
    }
    if (rest > 0x80000000u || (rest == 0x80000000u && (kept & 1u) != 0u)) ++kept;
    return sign | kept;
}

float half_to_float(uint half_bits) {
    uint sign = (half_bits & 0x8000u) << 16;
    uint exponent = (half_bits >> 10) & 0x1fu;
    uint fraction = half_bits & 0x3ffu;
    if (exponent == 0u) {
        precise float magnitude = float(fraction) * 5.9604644775390625e-8;  // 2^-24
        return uintBitsToFloat(floatBitsToUint(magnitude) | sign);
    }
    uint wide = exponent == 0x1fu ? 0xffu : exponent + 112u;
    return uintBitsToFloat(sign | (wide << 23) | (fraction << 13));
}

uint float_to_bfloat(float value) {
    uint bits = floatBitsToUint(value);
    if (is_nan(value)) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

float bfloat_to_float(uint bits) {
    return uintBitsToFloat(bits << 16);
}
