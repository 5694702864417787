#pragma once

// How long the pieces are in which floats are added up. Rounding depends on the order of additions,
// so every device and every instruction set adds in the same one: each piece by itself, from zero
// and in ascending order, which a device with many lanes can do side by side; then the pieces' sums
// in ascending order. docs/numerics.md says it for every operator. Another length gives other bits:
// then workers of different versions would no longer give the same tokens.

namespace helix::engine::ops {

// Of a product with a quantised matrix. A multiple of every format's unit of columns.
constexpr int kSegmentColumns = 256;
// Of a product with a matrix of floats.
constexpr int kFloatSegmentColumns = 64;
// Of attention: chunk c is positions [c, c + 1) * kChunkPositions of the sequence, however long the
// blocks of its KV are. A multiple of 16.
constexpr int kChunkPositions = 128;
// Of the weights of a row of logits, and of the sums of these pieces, until one is left. A multiple
// of 16.
constexpr int kLogitSegment = 256;

}  // namespace helix::engine::ops
