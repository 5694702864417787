// Rows of logits in pieces. Included in a variant's namespace.

void logit_tops(const float* x, std::int64_t n, float* tops) {
    const Ints magnitude = set1(0x7fffffff);
    const Floats least = set1(std::numeric_limits<float>::lowest());
    for (std::int64_t first = 0; first < n; first += kLogitSegment) {
        const std::int64_t end = n - first < kLogitSegment ? n : first + kLogitSegment;
        Floats top = least;
        // Magnitudes of floats are ordered as their bits are; NaN and infinity come out on top.
        Ints largest = set1(0);
        std::int64_t i = first;
        for (; i + 16 <= end; i += 16) {
            const Floats v = load(x + i);
            top = max(top, v);
            largest = max(largest, bit_and(bits_of(v), magnitude));
        }
        if (i < end) {
            const Floats v =
                load_first(x + i, static_cast<int>(end - i), std::numeric_limits<float>::lowest());
            top = max(top, v);
            largest = max(largest, bit_and(bits_of(v), magnitude));
        }
        *tops++ = reduce_max(largest) >= 0x7f800000 ? std::numeric_limits<float>::quiet_NaN()
                                                    : reduce_max(top);
    }
}

void weight_sums(const float* x, std::int64_t n, float top, float* sums) {
    const Floats shift = set1(top);
    for (std::int64_t first = 0; first < n; first += kLogitSegment) {
        const std::int64_t end = n - first < kLogitSegment ? n : first + kLogitSegment;
        Floats sum = set1(0.0F);
        std::int64_t i = first;
        for (; i + 16 <= end; i += 16) sum = add(sum, exp_or_zero(sub(load(x + i), shift)));
        if (i < end) {
            // Missing ones weigh nothing.
            const Floats v = load_first(x + i, static_cast<int>(end - i),
                                        -std::numeric_limits<float>::infinity());
            sum = add(sum, exp_or_zero(sub(v, shift)));
        }
        *sums++ = reduce_add(sum);
    }
}
