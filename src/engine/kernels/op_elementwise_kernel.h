// Quantisation of activations, norms, gates, exp and tanh. Included in a variant's namespace.

// e^x for x in [-87.3, 88.3], clamped outside; NaN stays NaN (max and min give their second
// argument then). x = n ln 2 + r, and a polynomial of degree 6 for e^r (Taylor coefficients; |r| <=
// ln 2 / 2 leaves 1.2e-7 relative).
HELIX_INLINE Floats exp(Floats x) {
    x = max(set1(-87.3F), min(set1(88.3F), x));
    const Floats n = round(mul(x, set1(1.44269504F)));
    // ln 2 in two parts; the first has 9 bits, so n times it is exact.
    Floats r = fma(n, set1(-0.693359375F), x);
    r = fma(n, set1(2.12194440e-4F), r);
    Floats y = set1(1.0F / 720.0F);
    y = fma(y, r, set1(1.0F / 120.0F));
    y = fma(y, r, set1(1.0F / 24.0F));
    y = fma(y, r, set1(1.0F / 6.0F));
    y = fma(y, r, set1(0.5F));
    y = fma(y, r, set1(1.0F));
    y = fma(y, r, set1(1.0F));
    // n is in [-126, 127]: adding it to the exponent leaves a normal number.
    return from_bits(add(bits_of(y), shift_left<23>(to_ints(n))));
}

void quantise_row(const float* x, std::int64_t n, QuantisedBlock* blocks) {
    const Ints magnitude = set1(0x7fffffff);
    for (std::int64_t b = 0; b < n / 32; ++b) {
        const Floats lo = load(x + 32 * b);
        const Floats hi = load(x + 32 * b + 16);
        // Magnitudes of floats are ordered as their bits are; NaN and infinity come out on top.
        const std::int32_t top =
            reduce_max(max(bit_and(bits_of(lo), magnitude), bit_and(bits_of(hi), magnitude)));
        const float largest = std::bit_cast<float>(top);
        const bool broken = top >= 0x7f800000;
        const bool zero = largest < 1e-30F;
        Ints q_lo = set1(0);
        Ints q_hi = set1(0);
        if (!broken && !zero) {
            const Floats inverse = set1(127.0F / largest);
            q_lo = to_ints(mul(lo, inverse));
            q_hi = to_ints(mul(hi, inverse));
        }
        QuantisedBlock& block = blocks[b];
        store_i8(block.q, q_lo);
        store_i8(block.q + 16, q_hi);
        const std::int32_t sum_lo = reduce_add(q_lo);
        const std::int32_t sum_hi = reduce_add(q_hi);
        block.minus_sum = -(sum_lo + sum_hi);
        block.minus_upper_sum = -sum_hi;
        block.scale = broken ? std::numeric_limits<float>::quiet_NaN()
                      : zero ? 0.0F
                             : largest / 127.0F;
        block.scaled_sum = block.scale * static_cast<float>(sum_lo + sum_hi);
    }
}

void rms_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
    Floats squares = set1(0.0F);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const Floats v = load(x + i);
        squares = fma(v, v, squares);
    }
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats v = load_first(x + i, rest, 0.0F);
        squares = fma(v, v, squares);
    }
    const float mean = reduce_add(squares) / static_cast<float>(n);
    const Floats factor = set1(1.0F / std::sqrt(mean + epsilon));
    for (i = 0; i + 16 <= n; i += 16) store(y + i, mul(mul(load(x + i), factor), load(weight + i)));
    if (rest > 0) {
        const Floats w = load_first(weight + i, rest, 0.0F);
        store_first(y + i, rest, mul(mul(load_first(x + i, rest, 0.0F), factor), w));
    }
}

HELIX_INLINE Floats silu_times(Floats gate, Floats up) {
    const Floats one = set1(1.0F);
    const Floats silu = div(gate, add(one, exp(sub(set1(0.0F), gate))));
    return mul(silu, up);
}

// tanh x: of x / 8 by the continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))) down to 11, and
// from there by tanh 2a = 2 tanh a / (1 + tanh^2 a), three times. 4e-7 relative; NaN stays NaN.
HELIX_INLINE Floats tanh(Floats x) {
    const Floats a = mul(max(set1(-9.0F), min(set1(9.0F), x)), set1(0.125F));
    const Floats square = mul(a, a);
    Floats above = fma(set1(21.0F), square, set1(1260.0F));
    above = fma(above, square, set1(10395.0F));
    Floats below = add(square, set1(210.0F));
    below = fma(below, square, set1(4725.0F));
    below = fma(below, square, set1(10395.0F));
    Floats t = div(mul(a, above), below);
    for (int i = 0; i < 3; ++i) t = div(add(t, t), fma(t, t, set1(1.0F)));
    return t;
}

// cap * tanh(x * (1 / cap))
HELIX_INLINE Floats capped(Floats x, Floats cap, Floats inverse) {
    return mul(tanh(mul(x, inverse)), cap);
}

// gelu(x) = x / (1 + exp(-2 z)), z = sqrt(2 / pi) (x + 0.044715 x^3).
HELIX_INLINE Floats gelu_times(Floats gate, Floats up) {
    const Floats one = set1(1.0F);
    const Floats inner = fma(mul(gate, gate), set1(0.044715F), one);
    const Floats exponent = mul(mul(gate, inner), set1(-1.5957691F));
    return mul(div(gate, add(one, exp(exponent))), up);
}

void geglu(const float* gate, const float* up, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, gelu_times(load(gate + i), load(up + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats g = load_first(gate + i, rest, 0.0F);
        store_first(y + i, rest, gelu_times(g, load_first(up + i, rest, 0.0F)));
    }
}

HELIX_INLINE Floats relu_times(Floats gate, Floats up) {
    return mul(max(gate, set1(0.0F)), up);
}

void reglu(const float* gate, const float* up, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, relu_times(load(gate + i), load(up + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats g = load_first(gate + i, rest, 0.0F);
        store_first(y + i, rest, relu_times(g, load_first(up + i, rest, 0.0F)));
    }
}

// See ops/gelu.h. The last coefficient is that of t^9.
HELIX_INLINE Floats exact_gelu(Floats x) {
    const Floats one = set1(1.0F);
    const Floats a = min(set1(14.0F), max(sub(set1(0.0F), x), x));
    const Floats t = div(one, fma(a, set1(0.25F), one));
    Floats p = set1(-0.187237933F);
    p = fma(p, t, set1(0.794700384F));
    p = fma(p, t, set1(-1.15509403F));
    p = fma(p, t, set1(0.590449631F));
    p = fma(p, t, set1(-0.0902904272F));
    p = fma(p, t, set1(-0.0435807519F));
    p = fma(p, t, set1(0.284184515F));
    p = fma(p, t, set1(0.41612488F));
    p = fma(p, t, set1(1.00300014F));
    p = fma(p, t, set1(-2.30540347F));
    const Floats exponent = fma(mul(a, a), set1(-0.5F), p);
    const Floats tail = mul(mul(a, t), exp(exponent));
    return sub(max(set1(0.0F), x), tail);
}

void gelu(const float* x, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, exact_gelu(load(x + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_first(y + i, rest, exact_gelu(load_first(x + i, rest, 0.0F)));
}

void exact_geglu(const float* gate, const float* up, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, mul(exact_gelu(load(gate + i)), load(up + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats g = exact_gelu(load_first(gate + i, rest, 0.0F));
        store_first(y + i, rest, mul(g, load_first(up + i, rest, 0.0F)));
    }
}

HELIX_INLINE Floats clamped_silu_times(Floats gate, Floats up) {
    const Floats one = set1(1.0F);
    gate = min(set1(7.0F), gate);
    up = max(set1(-7.0F), min(set1(7.0F), up));
    const Floats below = add(one, exp(mul(gate, set1(-1.702F))));
    return mul(div(gate, below), add(up, one));
}

void clamped_swiglu(const float* gate, const float* up, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, clamped_silu_times(load(gate + i), load(up + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats g = load_first(gate + i, rest, 0.0F);
        store_first(y + i, rest, clamped_silu_times(g, load_first(up + i, rest, 0.0F)));
    }
}

HELIX_INLINE Floats scaled(Floats x, float factor, float cap) {
    x = mul(x, set1(factor));
    return cap > 0 ? capped(x, set1(cap), set1(1.0F / cap)) : x;
}

void scale_row(const float* x, std::int64_t n, float factor, float cap, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, scaled(load(x + i), factor, cap));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_first(y + i, rest, scaled(load_first(x + i, rest, 0.0F), factor, cap));
}

void layer_norm(const float* x, const float* weight, std::int64_t n, float epsilon, float* y) {
    const std::int64_t whole = n / 16 * 16;
    const int rest = static_cast<int>(n - whole);
    Floats sums = set1(0.0F);
    for (std::int64_t i = 0; i < whole; i += 16) sums = add(sums, load(x + i));
    if (rest > 0) sums = add(sums, load_first(x + whole, rest, 0.0F));
    const float mean = reduce_add(sums) / static_cast<float>(n);
    const Floats middle = set1(mean);
    Floats squares = set1(0.0F);
    for (std::int64_t i = 0; i < whole; i += 16) {
        const Floats v = sub(load(x + i), middle);
        squares = fma(v, v, squares);
    }
    if (rest > 0) {
        const Floats v = sub(load_first(x + whole, rest, mean), middle);
        squares = fma(v, v, squares);
    }
    const float variance = reduce_add(squares) / static_cast<float>(n);
    const Floats factor = set1(1.0F / std::sqrt(variance + epsilon));
    for (std::int64_t i = 0; i < whole; i += 16)
        store(y + i, mul(mul(sub(load(x + i), middle), factor), load(weight + i)));
    if (rest > 0) {
        const Floats w = load_first(weight + whole, rest, 0.0F);
        const Floats v = sub(load_first(x + whole, rest, 0.0F), middle);
        store_first(y + whole, rest, mul(mul(v, factor), w));
    }
}

void swiglu(const float* gate, const float* up, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, silu_times(load(gate + i), load(up + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats g = load_first(gate + i, rest, 0.0F);
        store_first(y + i, rest, silu_times(g, load_first(up + i, rest, 0.0F)));
    }
}

// Lanes of x that are below the smallest argument of exp become 0.
HELIX_INLINE Floats exp_or_zero(Floats x) {
    // exp() clamps at -87.3, where it gives 1.2e-38; scaling and shifting by that makes it an exact
    // zero.
    const Floats smallest = exp(set1(-100.0F));
    return max(set1(0.0F), sub(exp(x), smallest));
}

void exp_row(const float* x, std::int64_t n, float shift, float factor, float* y) {
    const Floats minus_shift = set1(-shift);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        store(y + i, exp_or_zero(mul(add(load(x + i), minus_shift), set1(factor))));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        const Floats v = load_first(x + i, rest, shift);
        store_first(y + i, rest, exp_or_zero(mul(add(v, minus_shift), set1(factor))));
    }
}

HELIX_INLINE Floats sigmoid(Floats x) {
    const Floats one = set1(1.0F);
    return div(one, add(one, exp(sub(set1(0.0F), x))));
}

void sigmoid_row(const float* x, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, sigmoid(load(x + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_first(y + i, rest, sigmoid(load_first(x + i, rest, 0.0F)));
}

// Magnitudes of floats are ordered as their bits are; NaN and infinity come out on top.
HELIX_INLINE std::int32_t largest_magnitude_bits(const float* x, std::int64_t n) {
    const Ints magnitude = set1(0x7fffffff);
    Ints top = set1(0);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) top = max(top, bit_and(bits_of(load(x + i)), magnitude));
    const Floats rest = load_first(x + i, static_cast<int>(n - i), 0.0F);
    return reduce_max(max(top, bit_and(bits_of(rest), magnitude)));
}

float quantise_kv(const float* x, std::int64_t n, std::int8_t* q) {
    const std::int32_t top = largest_magnitude_bits(x, n);
    const float largest = std::bit_cast<float>(top);
    const bool broken = top >= 0x7f800000;
    if (broken || largest < 1e-30F) {
        std::memset(q, 0, static_cast<std::size_t>(n));
        return broken ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    }
    const Floats inverse = set1(127.0F / largest);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) store_i8(q + i, to_ints(mul(load(x + i), inverse)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
        std::int8_t lanes[16];
        store_i8(lanes, to_ints(mul(load_first(x + i, rest, 0.0F), inverse)));
        std::memcpy(q + i, lanes, static_cast<std::size_t>(rest));
    }
    return largest / 127.0F;
}

// x[n] as halves.
void to_half(const float* x, std::int64_t n, std::uint16_t* y) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        store_half(static_cast<std::byte*>(static_cast<void*>(y + i)), load(x + i));
    for (; i < n; ++i) y[i] = float_to_half(x[i]);
}
