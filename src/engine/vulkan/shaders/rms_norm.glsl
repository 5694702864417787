// The RMS norm of a row by the 64 invocations of a workgroup. The sum of squares has 16 lanes; lane l takes elements
// l, l + 16 and so on; then they are folded in halves.
shared float lanes[16];

// 1 / sqrt(mean(x^2) + epsilon) of the n floats from `first` on; all invocations get it.
float rms_factor(Floats x, uint first, uint n, float epsilon) {
    uint lane = gl_LocalInvocationIndex;
    barrier();  // of a use of lanes before
    if (lane < 16u) {
        float squares = 0.0;
        for (uint i = lane; i < n; i += 16u) {
            float v = x.v[first + i];
            squares = fma_exact(v, v, squares);
        }
        lanes[lane] = squares;
    }
    barrier();
    for (uint apart = 8u; apart > 0u; apart >>= 1) {
        if (lane < apart) {
            precise float sum = lanes[lane] + lanes[lane + apart];
            lanes[lane] = sum;
        }
        barrier();
    }
    precise float mean = div(lanes[0], float(n)) + epsilon;
    return div(1.0, square_root(mean));
}
