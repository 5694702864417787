#version 450
#extension GL_GOOGLE_include_directive : require
// Causal attention of one row and query head (docs/numerics.md has the order of its sums). A workgroup goes along the
// chunks of positions; or, where kSplit, takes one of them and leaves its sums to attention_combine.comp. A lane has a
// position of the chunk when scores are computed, and a dimension when values are added up.
#include "attention_common.glsl"

// As ops::KvType.
const uint kF16 = 0;
const uint kBf16 = 1;
const uint kF32 = 2;
const uint kQ8 = 3;
layout(constant_id = 0) const uint kType = kF16;
layout(constant_id = 1) const uint kSplit = 0;

shared float query[kMaxHeadDim];
shared float total_values[kMaxHeadDim];
shared float scratch[kChunkPositions];
shared float weights[kChunkPositions];  // times the scales of the values

shared float lane_sums[16];

// Element i of those that begin at a word of the page.
float load_element(Words page, uint word, uint i) {
    if (kType == kF32) return uintBitsToFloat(page.v[word + i]);
    if (kType == kQ8) return float(bitfieldExtract(int(page.v[word + i / 4]), int(8 * (i % 4)), 8));
    const uint bits = (page.v[word + i / 2] >> (16 * (i % 2))) & 0xffff;
    return kType == kBf16 ? bfloat_to_float(bits) : half_to_float(bits);
}

// A head's keys or values, which end before a word, are followed by the scales of all positions in q8.
float scale_of(Words page, uint end, uint in_block) {
    return uintBitsToFloat(page.v[end - params.positions + in_block]);
}

float score(Words page, uint keys, uint in_block) {
    float sum = 0.0;
    for (uint d = 0; d < params.head_dim; ++d)
        sum = fma_exact(load_element(page, keys, d * params.positions + in_block), query[d], sum);
    precise float scaled = sum;
    if (kType == kQ8) scaled = scaled * scale_of(page, keys + params.head_keys, in_block);
    scaled = scaled * params.scale;
    return scaled;
}

// Of what lanes have in scratch, without those that are no numbers.
float largest_of_lanes(uint lane) {
    for (uint n = kChunkPositions / 2; n > 0; n /= 2) {
        barrier();
        if (lane < n && scratch[lane + n] > scratch[lane]) scratch[lane] = scratch[lane + n];
    }
    barrier();
    return scratch[0];
}

// Of the weights in scratch at positions [begin, end) of the chunk.
float sum_of_weights(uint lane, uint begin, uint end) {
    barrier();
    if (lane < 16) {
        precise float sum = 0.0;
        for (uint p = lane; p < end; p += 16) {
            if (p >= begin) sum = sum + scratch[p];
        }
        lane_sums[lane] = sum;
    }
    for (uint n = 8; n > 0; n /= 2) {
        barrier();
        if (lane < n) {
            precise const float both = lane_sums[lane] + lane_sums[lane + n];
            lane_sums[lane] = both;
        }
    }
    barrier();
    return lane_sums[0];
}

// Fills weights, of positions [begin, end) of the chunk that starts at `first`.
Softmax weigh_chunk(Row row, uint kv_head, uint lane, uint first, uint begin, uint end) {
    const bool used = lane >= begin && lane < end;
    const uint block = (first + lane) / params.block_size;
    const uint in_block = (first + lane) % params.block_size;
    const float none = uintBitsToFloat(0xff800000u);
    float own = none;
    if (used) own = score(row.pages.v[block].words, kv_head * params.head_keys, in_block);
    barrier();  // the chunk before is done with scratch and weights
    scratch[lane] = is_nan(own) ? none : own;
    const float top = largest_of_lanes(lane);
    barrier();
    if (used) {
        precise const float relative = own - top;
        precise float weight = exp_or_zero(relative);
        scratch[lane] = weight;
        const uint end_of_values = params.values + (kv_head + 1) * params.head_values;
        if (kType == kQ8) weight = weight * scale_of(row.pages.v[block].words, end_of_values, in_block);
        weights[lane] = weight;
    }
    return Softmax(top, sum_of_weights(lane, begin, end));
}

float sum_of_values(Row row, uint kv_head, uint d, uint first, uint begin, uint end) {
    float sum = 0.0;
    for (uint p = begin; p < end; ++p) {
        const uint in_block = (first + p) % params.block_size;
        const float value = load_element(row.pages.v[(first + p) / params.block_size].words,
                                         params.values + kv_head * params.head_values, in_block * params.dims + d);
        sum = fma_exact(value, weights[p], sum);
    }
    return sum;
}

void store_partial(uint at, uint lane, Softmax chunk) {
    if (lane == 0) {
        params.partials.v[at] = chunk.top;
        params.partials.v[at + 1] = chunk.sum;
    }
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.x;
    const uint kv_head = head / params.group;
    Row row = params.rows.v[gl_WorkGroupID.y];
    const uint at = (row.row * params.n_heads + head) * params.head_dim;
    uint chunk = row.begin / kChunkPositions + gl_WorkGroupID.z;
    if (chunk * kChunkPositions >= row.end) return;
    for (uint d = lane; d < params.head_dim; d += kChunkPositions) query[d] = params.q.v[at + d];
    barrier();
    Softmax total = Softmax(0.0, 0.0);
    for (bool is_first = true; chunk * kChunkPositions < row.end; ++chunk, is_first = false) {
        const uint first = chunk * kChunkPositions;
        const uint begin = max(row.begin, first) - first;
        const uint end = min(row.end - first, kChunkPositions);
        const Softmax next = weigh_chunk(row, kv_head, lane, first, begin, end);
        if (kSplit != 0) {
            const uint partial = partial_at(gl_WorkGroupID.y, head, gl_WorkGroupID.z);
            store_partial(partial, lane, next);
            for (uint d = lane; d < params.head_dim; d += kChunkPositions)
                params.partials.v[partial + 2 + d] = sum_of_values(row, kv_head, d, first, begin, end);
            return;
        }
        Factors factors = Factors(0.0, 0.0);
        if (is_first) {
            total = next;
        } else {
            factors = add_chunk(total, next);
        }
        for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
            const float sum = sum_of_values(row, kv_head, d, first, begin, end);
            total_values[d] = is_first ? sum : add_values(total_values[d], sum, factors);
        }
    }
    const float norm = div(1.0, total.sum);
    for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
        precise const float result = total_values[d] * norm;
        params.out_.v[at + d] = result;
    }
}
