// The RMS norm of a row by the invocations of a workgroup. The sum of squares has 16 lanes; lane l takes elements
// l, l + 16 and so on; then they are folded in halves. The workgroup's invocations bring the row into shared memory, a piece
// at a time and eight elements each under way: the 16 alone would wait for memory longer than they add.
#extension GL_EXT_control_flow_attributes : require
const uint kPiece = 2048;
shared float piece[kPiece + kPiece / 32u];  // more than a piece takes: rms_norm.comp spreads it
shared float lanes[16];

// 1 / sqrt(mean(x^2) + epsilon) of the n floats from `first` on; all invocations get it.
float rms_factor(Floats x, uint first, uint n, float epsilon) {
    uint lane = gl_LocalInvocationIndex;
    float squares = 0.0;
    for (uint begin = 0u; begin < n; begin += kPiece) {
        uint count = min(kPiece, n - begin);
        barrier();  // of what was done with shared memory before
        for (uint i = lane; i < count; i += 8u * gl_WorkGroupSize.x) {
            float ahead[8];
            [[unroll]] for (uint k = 0u; k < 8u; ++k)
                ahead[k] = x.v[first + begin + min(i + k * gl_WorkGroupSize.x, count - 1u)];
            [[unroll]] for (uint k = 0u; k < 8u; ++k)
                if (i + k * gl_WorkGroupSize.x < count) piece[i + k * gl_WorkGroupSize.x] = ahead[k];
        }
        barrier();
        if (lane < 16u) {
            uint i = lane;
            for (; i + 7u * 16u < count; i += 8u * 16u) {
                [[unroll]] for (uint k = 0u; k < 8u; ++k) {
                    float v = piece[i + 16u * k];
                    squares = fma_exact(v, v, squares);
                }
            }
            for (; i < count; i += 16u) squares = fma_exact(piece[i], piece[i], squares);
        }
    }
    if (lane < 16u) lanes[lane] = squares;
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
