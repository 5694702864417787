#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Causal attention (docs/numerics.md has the order of its sums). A workgroup has some queries that share what is read
// of keys and values: kHeads heads of a KV head's group in kRows rows of a sequence that follow each other. It goes
// along the chunks of positions; or, where kSplit, takes one of them and leaves its sums to attention_combine.comp. A
// lane has a position of the chunk when scores are computed, and a dimension when values are added up.
#include "attention_common.glsl"

// As ops::KvType.
const uint kF16 = 0;
const uint kBf16 = 1;
const uint kF32 = 2;
const uint kQ8 = 3;
layout(constant_id = 0) const uint kType = kF16;
layout(constant_id = 1) const uint kSplit = 0;
layout(constant_id = 2) const uint kHeads = 1;
layout(constant_id = 3) const uint kRows = 1;

const uint kMostQueries = 8;
const uint kQueries = kHeads * kRows;  // kQueries * head_dim is up to kMaxHeadDim

shared float query[kMaxHeadDim];                     // [head_dim][kQueries]
shared float total_values[kMaxHeadDim];              // [head_dim][kQueries]
shared float weights[kQueries * kChunkPositions];    // [kQueries][positions]
shared float lane_sums[kQueries * 16];

// What a query attends to of a chunk: positions [begin, end) of it. begin == end: nothing.
struct Span {
    uint begin;
    uint end;
};

// The heads and rows of the workgroup, and the chunk that it is at.
struct Place {
    Pages pages;
    uint kv_head;
    uint first_head;
    uint heads;
    uint first_row;  // of params.rows
    uint rows;
    uint begin;  // of the positions that any row attends to
    uint end;
    uint first;  // position of the chunk
};

bool is_used(Place at, uint q) {
    return q % kHeads < at.heads && q / kHeads < at.rows;
}

Span span_of(Place at, uint q) {
    if (!is_used(at, q)) return Span(0, 0);
    Row row = params.rows.v[at.first_row + q / kHeads];
    return Span(clamp(row.begin, at.first, at.first + kChunkPositions) - at.first,
                clamp(row.end, at.first, at.first + kChunkPositions) - at.first);
}

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

// Of all queries with one key.
void score(Words page, uint keys, uint in_block, inout float scores[kMostQueries]) {
    for (uint d = 0; d < params.head_dim; ++d) {
        const float key = load_element(page, keys, d * params.positions + in_block);
        [[unroll]] for (uint q = 0; q < kQueries; ++q)
            scores[q] = fma_exact(key, query[d * kQueries + q], scores[q]);
    }
    const float key_scale = kType == kQ8 ? scale_of(page, keys + params.head_keys, in_block) : 1.0;
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        precise float scaled = scores[q];
        if (kType == kQ8) scaled = scaled * key_scale;
        scaled = scaled * params.scale;
        scores[q] = scaled;
    }
}

// Of what lanes have in weights, for each query.
void find_tops(uint lane, inout Softmax chunk[kMostQueries]) {
    for (uint n = kChunkPositions / 2; n > 0; n /= 2) {
        barrier();
        if (lane >= n) continue;
        for (uint at = lane; at < kQueries * kChunkPositions; at += kChunkPositions)
            if (weights[at + n] > weights[at]) weights[at] = weights[at + n];
    }
    barrier();
    [[unroll]] for (uint q = 0; q < kQueries; ++q) chunk[q].top = weights[q * kChunkPositions];
    barrier();
}

// Sixteen lanes for each query.
void add_weights(Place at, uint lane, inout Softmax chunk[kMostQueries]) {
    barrier();
    const uint own = lane % 16;
    const bool adds = lane < kQueries * 16;
    if (adds) {
        const Span span = span_of(at, lane / 16);
        precise float sum = 0.0;
        for (uint p = own; p < span.end; p += 16) {
            if (p >= span.begin) sum = sum + weights[lane / 16 * kChunkPositions + p];
        }
        lane_sums[lane] = sum;
    }
    for (uint n = 8; n > 0; n /= 2) {
        barrier();
        if (adds && own < n) {
            precise const float both = lane_sums[lane] + lane_sums[lane + n];
            lane_sums[lane] = both;
        }
    }
    barrier();
    [[unroll]] for (uint q = 0; q < kQueries; ++q) chunk[q].sum = lane_sums[16 * q];
}

// Fills weights, times the scales of the values.
void weigh_chunk(Place at, uint lane, out Softmax chunk[kMostQueries]) {
    const uint position = at.first + lane;
    const uint in_block = position % params.block_size;
    const bool reads = position >= at.begin && position < at.end;
    float scores[kMostQueries];
    [[unroll]] for (uint q = 0; q < kQueries; ++q) scores[q] = 0.0;
    float value_scale = 1.0;
    if (reads) {
        Words page = at.pages.v[position / params.block_size].words;
        score(page, at.kv_head * params.head_keys, in_block, scores);
        if (kType == kQ8) value_scale = scale_of(page, params.values + (at.kv_head + 1) * params.head_values, in_block);
    }
    barrier();  // the chunk before is done with weights
    const float least = uintBitsToFloat(0xff7fffffu);
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        const Span span = span_of(at, q);
        const bool counts = lane >= span.begin && lane < span.end && scores[q] > least;
        weights[q * kChunkPositions + lane] = counts ? scores[q] : least;
    }
    find_tops(lane, chunk);
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        precise const float relative = scores[q] - chunk[q].top;
        scores[q] = exp_or_zero(relative);
        weights[q * kChunkPositions + lane] = scores[q];
    }
    add_weights(at, lane, chunk);
    if (kType == kQ8) {
        [[unroll]] for (uint q = 0; q < kQueries; ++q) {
            precise const float weight = scores[q] * value_scale;
            weights[q * kChunkPositions + lane] = weight;
        }
    }
    barrier();
}

void add_values_of_chunk(Place at, uint d, inout float sums[kMostQueries]) {
    Span spans[kMostQueries];
    Span all = Span(0, kChunkPositions);  // positions of every query that is used
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        spans[q] = span_of(at, q);
        if (is_used(at, q)) all = Span(max(all.begin, spans[q].begin), min(all.end, spans[q].end));
        sums[q] = 0.0;
    }
    const uint end = min(at.end - at.first, kChunkPositions);
    for (uint p = max(at.begin, at.first) - at.first; p < end; ++p) {
        const uint position = at.first + p;
        Words page = at.pages.v[position / params.block_size].words;
        const float value = load_element(page, params.values + at.kv_head * params.head_values,
                                         position % params.block_size * params.dims + d);
        const bool by_all = p >= all.begin && p < all.end;
        [[unroll]] for (uint q = 0; q < kQueries; ++q) {
            if (by_all || (p >= spans[q].begin && p < spans[q].end))
                sums[q] = fma_exact(value, weights[q * kChunkPositions + p], sums[q]);
        }
    }
}

// The sums of a chunk, for attention_combine.comp.
void store_partials(Place at, uint lane, Softmax chunk[kMostQueries]) {
    for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
        float sums[kMostQueries];
        add_values_of_chunk(at, d, sums);
        [[unroll]] for (uint q = 0; q < kQueries; ++q) {
            const Span span = span_of(at, q);
            if (span.begin >= span.end) continue;
            const uint row = at.first_row + q / kHeads;
            const uint before = params.rows.v[row].begin / kChunkPositions;
            const uint partial = partial_at(row, at.first_head + q % kHeads, at.first / kChunkPositions - before);
            if (d == 0) {
                params.partials.v[partial] = chunk[q].top;
                params.partials.v[partial + 1] = chunk[q].sum;
            }
            params.partials.v[partial + 2 + d] = sums[q];
        }
    }
}

void add_partials(Place at, uint lane, Softmax chunk[kMostQueries], inout Softmax totals[kMostQueries]) {
    Factors factors[kMostQueries];
    bool is_first[kMostQueries];
    bool is_any[kMostQueries];
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        const Span span = span_of(at, q);
        is_any[q] = span.begin < span.end;
        is_first[q] = is_any[q] && params.rows.v[at.first_row + q / kHeads].begin >= at.first;
        factors[q] = Factors(0.0, 0.0);
        if (is_first[q]) {
            totals[q] = chunk[q];
        } else if (is_any[q]) {
            factors[q] = add_chunk(totals[q], chunk[q]);
        }
    }
    for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
        float sums[kMostQueries];
        add_values_of_chunk(at, d, sums);
        [[unroll]] for (uint q = 0; q < kQueries; ++q) {
            const uint own = d * kQueries + q;
            if (is_first[q]) {
                total_values[own] = sums[q];
            } else if (is_any[q]) {
                total_values[own] = add_values(total_values[own], sums[q], factors[q]);
            }
        }
    }
}

uint row_of(Place at, uint q) {
    return (params.rows.v[at.first_row + q / kHeads].row * params.n_heads + at.first_head + q % kHeads) *
           params.head_dim;
}

Place find_place() {
    const uint parts = (params.group + kHeads - 1) / kHeads;  // of a group
    const Tile tile = params.tiles.v[gl_WorkGroupID.y];
    Row first = params.rows.v[tile.first];
    const uint in_group = gl_WorkGroupID.x % parts * kHeads;
    Place at;
    at.pages = first.pages;
    at.kv_head = gl_WorkGroupID.x / parts;
    at.first_head = at.kv_head * params.group + in_group;
    at.heads = min(kHeads, params.group - in_group);
    at.first_row = tile.first;
    at.rows = tile.rows;
    at.begin = first.begin;
    at.end = params.rows.v[tile.first + tile.rows - 1].end;
    at.first = (at.begin / kChunkPositions + gl_WorkGroupID.z) * kChunkPositions;
    return at;
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    Place at = find_place();
    if (at.first >= at.end) return;
    for (uint q = 0; q < kQueries; ++q) {
        for (uint d = lane; d < params.head_dim; d += kChunkPositions)
            query[d * kQueries + q] = is_used(at, q) ? params.q.v[row_of(at, q) + d] : 0.0;
    }
    barrier();
    Softmax totals[kMostQueries];
    [[unroll]] for (uint q = 0; q < kQueries; ++q) totals[q] = Softmax(0.0, 0.0);
    for (; at.first < at.end; at.first += kChunkPositions) {
        Softmax chunk[kMostQueries];
        weigh_chunk(at, lane, chunk);
        if (kSplit != 0) {
            store_partials(at, lane, chunk);
            return;
        }
        add_partials(at, lane, chunk, totals);
    }
    [[unroll]] for (uint q = 0; q < kQueries; ++q) {
        if (!is_used(at, q)) continue;
        const float norm = div(1.0, totals[q].sum);
        for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
            precise const float result = total_values[d * kQueries + q] * norm;
            params.out_.v[row_of(at, q) + d] = result;
        }
    }
}
