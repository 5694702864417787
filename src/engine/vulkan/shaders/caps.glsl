// Soft caps of scores and logits. Included after numerics.glsl.

// tanh x as op_elementwise_kernel.h has it.
float tanh_of(float x) {
    if (is_nan(x)) return x;
    x = x > 9.0 ? 9.0 : x;
    x = x < -9.0 ? -9.0 : x;
    precise float a = x * 0.125;
    precise float square = a * a;
    float above = fma_exact(21.0, square, 1260.0);
    above = fma_exact(above, square, 10395.0);
    precise float below = square + 210.0;
    below = fma_exact(below, square, 4725.0);
    below = fma_exact(below, square, 10395.0);
    precise float upper = a * above;
    float t = div(upper, below);
    for (uint i = 0u; i < 3u; ++i) {
        precise float twice = t + t;
        t = div(twice, fma_exact(t, t, 1.0));
    }
    return t;
}

// cap * tanh(x * (1 / cap))
float capped(float x, float cap) {
    precise float relative = x * div(1.0, cap);
    precise float value = tanh_of(relative) * cap;
    return value;
}
