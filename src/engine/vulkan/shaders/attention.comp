#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference_uvec2 : require
// Causal attention (docs/numerics.md has the order of its sums). A workgroup has some queries that share what is read
// of keys and values: kHeads heads of a KV head's group in kRows rows of a sequence that follow each other. It goes
// along the chunks of positions; or, where kSplit, takes one of them and leaves its sums to attention_combine.comp.
// Lanes divide the queries among them into parts. When scores are computed a lane has some positions of the chunk and
// the queries of a part; when values are added up it has some dimensions and the queries of a part. What it reads it
// reads several steps ahead, since the memory is slow to answer.
#include "attention_common.glsl"
#include "caps.glsl"

// As ops::KvType.
const uint kF16 = 0;
const uint kBf16 = 1;
const uint kF32 = 2;
const uint kQ8 = 3;
layout(constant_id = 0) const uint kType = kF16;
layout(constant_id = 1) const uint kSplit = 0;
layout(constant_id = 2) const uint kHeads = 1;
layout(constant_id = 3) const uint kRows = 1;
// Into how many parts queries are divided for scores, and positions of a lane: 1, 2 or 4.
layout(constant_id = 4) const uint kScoreParts = 1;
// Of its positions, those that lie in one word of keys: 1, 2 or 4.
layout(constant_id = 5) const uint kTogether = 1;
// Into how many parts queries are divided for values: 1, 2 or 4.
layout(constant_id = 6) const uint kValueParts = 1;
// Words of values that a lane adds up at once.
layout(constant_id = 7) const uint kValueWords = 1;
// Dimensions of keys, and positions of values, that are read before the first is added: 4, 8, 16 or 32.
layout(constant_id = 8) const uint kKeysAhead = 4;
layout(constant_id = 9) const uint kValuesAhead = 4;
// 1: the device itself turns halves into floats, exactly; 0: half_to_float() does.
layout(constant_id = 10) const uint kUnpacks = 0;
// 1: a page has a multiple of kValuesAhead positions.
layout(constant_id = 11) const uint kWholePages = 0;

// 1: scores are capped.
layout(constant_id = 12) const uint kCaps = 0;
// 1: heads have sinks.
layout(constant_id = 13) const uint kSinks = 0;
// 1: scores lose slopes times distances.
layout(constant_id = 14) const uint kSlopes = 0;

const uint kElements = kType == kF32 ? 1 : kType == kQ8 ? 4 : 2;  // of a word
// Of queries, what a lane has; some may not be used.
const uint kScoreQueries = (kHeads * kRows + kScoreParts - 1) / kScoreParts;
const uint kValueQueries = (kHeads * kRows + kValueParts - 1) / kValueParts;
const uint kScored = kScoreParts * kScoreQueries;  // of all lanes
const uint kAdded = kValueParts * kValueQueries;
const uint kQueries = kScored > kAdded ? kScored : kAdded;
const uint kScoreLanes = kChunkPositions / kScoreParts;  // that have the queries of one part
const uint kValueLanes = kChunkPositions / kValueParts;
const uint kScoreWords = kScoreParts / kTogether;  // of keys, in a dimension
const uint kQuarter = kChunkPositions / 4;

// Arrays of a lane are as long as the largest that any constants make: glslang takes two whose sizes are made of
// specialisation constants for different types.
const uint kMostAhead = 32;
const uint kMostScores = 16;   // kScored
const uint kMostParts = 4;
const uint kMostElements = 4;  // kValueWords * kElements
const uint kMostQueries = 16;  // kScoreQueries, kValueQueries
const uint kMostValues = 32;   // kValueWords * kElements * kValueQueries

const uint kMostQueryFours = kMaxHeadDim / 2;
// [part][dimension / 4] of kScoreQueries fours: four dimensions of each query, [dimension % 4][query].
shared vec4 query[kMostQueryFours];
shared vec4 weights[kQueries * kQuarter];  // [query][position]
shared float lane_results[kQueries * 16];

// With one row of a sequence: of each position of the chunk, the address of its page and which word of that is the first
// of its values. Pages are looked up once then, side by side.
const bool kOneRow = kRows == 1;
shared uvec4 value_places[kChunkPositions];

// What a query attends to of the chunk: positions [begin, end) of it. begin == end: nothing.
struct Span {
    uint begin;
    uint end;
};
shared Span spans[kQueries];
// Of a query: of this chunk, and of it and those before it.
shared Softmax chunks[kQueries];
shared Softmax totals[kQueries];
// How a chunk's values become those of a query.
const uint kNothing = 0;   // not at all
const uint kReplaces = 1;  // they are all so far
const uint kAdds = 2;
shared uint ways[kQueries];
shared Factors factors[kQueries];

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

// Element i of a word.
float element_of(uint word, uint i) {
    if (kType == kF32) return uintBitsToFloat(word);
    if (kType == kQ8) return float(bitfieldExtract(int(word), int(8 * i), 8));
    if (kType == kF16 && kUnpacks != 0) return unpackHalf2x16(word)[i];
    const uint bits = bitfieldExtract(word, int(16 * i), 16);
    return kType == kBf16 ? bfloat_to_float(bits) : half_to_float(bits);
}

// A head's keys or values, which end before a word, are followed by the scales of all positions in q8.
float scale_of(Words page, uint end, uint in_block) {
    return uintBitsToFloat(page.v[end - params.positions + in_block]);
}

// ---- scores

// Of a lane's positions, the i-th in the chunk.
uint score_position(uint lane, uint i) {
    return (i / kTogether * kScoreLanes + lane % kScoreLanes) * kTogether + i % kTogether;
}

// Where the keys of a lane are: its words of dimension 0, and which of their elements is the first that it takes.
struct Keys {
    Page pages[kMostParts];
    uint words[kMostParts];
    uint elements[kMostParts];
};

// Where a position of the chunk is: one of those that any row attends to, if it is not.
void find_position(Place at, uint position, out Words page, out uint in_block) {
    const uint read = clamp(at.first + position, at.begin, at.end - 1);
    page = at.pages.v[read / params.block_size].words;
    in_block = read % params.block_size;
}

Keys find_keys(Place at, uint lane) {
    Keys keys;
    [[unroll]] for (uint w = 0; w < kScoreWords; ++w) {
        uint in_block;
        find_position(at, score_position(lane, w * kTogether), keys.pages[w].words, in_block);
        // All of the word's elements, since the first may lie before what any row attends to.
        in_block = in_block / kTogether * kTogether;
        keys.words[w] = at.kv_head * params.head_keys + in_block / kElements;
        keys.elements[w] = kTogether == kElements ? 0 : in_block % kElements;
    }
    return keys;
}

// Adds a dimension: words of the lane's keys, times q, what its queries have of it.
void add_dimension(Keys keys, uint words[kMostParts], float q[kMostQueries], inout float scores[kMostScores]) {
    [[unroll]] for (uint i = 0; i < kScoreParts; ++i) {
        const float key = element_of(words[i / kTogether], keys.elements[i / kTogether] + i % kTogether);
        [[unroll]] for (uint j = 0; j < kScoreQueries; ++j)
            scores[i * kScoreQueries + j] = fma_exact(key, q[j], scores[i * kScoreQueries + j]);
    }
}

// kKeysAhead dimensions from d on.
void add_dimensions(Keys keys, uint fours, uint d, inout float scores[kMostScores]) {
    const uint stride = params.positions / kElements;
    uint words[kMostAhead][kMostParts];
    [[unroll]] for (uint i = 0; i < kKeysAhead; ++i) {
        [[unroll]] for (uint w = 0; w < kScoreWords; ++w)
            words[i][w] = keys.pages[w].words.v[keys.words[w] + (d + i) * stride];
    }
    [[unroll]] for (uint i = 0; i < kKeysAhead; i += 4) {
        vec4 four[kMostQueries];
        [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) four[j] = query[fours + (d + i) / 4 * kScoreQueries + j];
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            float q[kMostQueries];
            [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
                const uint element = k * kScoreQueries + j;
                q[j] = four[element / 4][element % 4];
            }
            add_dimension(keys, words[i + k], q, scores);
        }
    }
}

// The score of the lane's i-th position with its j-th query, less the head's slope times the distance from the row's
// own position.
float less_distance(Place at, uint lane, uint i, uint j, float score) {
    const uint q = lane / kScoreLanes * kScoreQueries + j;
    if (!is_used(at, q)) return score;
    const int own = int(params.rows.v[at.first_row + q / kHeads].position);
    const float distance = float(abs(int(at.first + score_position(lane, i)) - own));
    precise const float minus = 0.0 - params.slopes.v[at.first_head + q % kHeads];
    return fma_exact(minus, distance, score);
}

// Of the lane's positions with its queries: scores[position][query].
void find_scores(Place at, uint lane, out float scores[kMostScores]) {
    [[unroll]] for (uint i = 0; i < kScored; ++i) scores[i] = 0.0;
    Keys keys = find_keys(at, lane);
    const uint fours = lane / kScoreLanes * kScoreQueries * ((params.head_dim + 3) / 4);
    uint d = 0;
    for (; d + kKeysAhead <= params.head_dim; d += kKeysAhead) add_dimensions(keys, fours, d, scores);
    for (; d < params.head_dim; ++d) {
        uint words[kMostParts];
        [[unroll]] for (uint w = 0; w < kScoreWords; ++w)
            words[w] = keys.pages[w].words.v[keys.words[w] + d * (params.positions / kElements)];
        float q[kMostQueries];
        [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
            const uint element = d % 4 * kScoreQueries + j;
            q[j] = query[fours + d / 4 * kScoreQueries + element / 4][element % 4];
        }
        add_dimension(keys, words, q, scores);
    }
    [[unroll]] for (uint i = 0; i < kScoreParts; ++i) {
        Words page;
        uint in_block;
        float key_scale = 1.0;
        if (kType == kQ8) {
            find_position(at, score_position(lane, i), page, in_block);
            key_scale = scale_of(page, (at.kv_head + 1) * params.head_keys, in_block);
        }
        [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
            precise float scaled = scores[i * kScoreQueries + j];
            if (kType == kQ8) scaled = scaled * key_scale;
            scaled = scaled * params.scale;
            if (kCaps != 0) scaled = capped(scaled, params.softcap);
            if (kSlopes != 0) scaled = less_distance(at, lane, i, j, scaled);
            scores[i * kScoreQueries + j] = scaled;
        }
    }
}

// ---- weights

void set_weight(uint q, uint position, float weight) {
    weights[q * kQuarter + position / 4][position % 4] = weight;
}
float weight_of(uint q, uint position) {
    return weights[q * kQuarter + position / 4][position % 4];
}

// The largest of what is in weights, for each query: sixteen lanes for a query, then one.
void find_tops(uint lane) {
    barrier();
    for (uint at = lane; at < kQueries * 16; at += kChunkPositions) {
        float top = weight_of(at / 16, at % 16);
        [[unroll]] for (uint p = 16; p < kChunkPositions; p += 16) {
            const float other = weight_of(at / 16, at % 16 + p);
            if (other > top) top = other;
        }
        lane_results[at] = top;
    }
    barrier();
    if (lane < kQueries) {
        float top = lane_results[16 * lane];
        [[unroll]] for (uint i = 1; i < 16; ++i) {
            const float other = lane_results[16 * lane + i];
            if (other > top) top = other;
        }
        chunks[lane].top = top;
    }
    barrier();
}

// Sixteen lanes for each query.
void add_weights(uint lane) {
    barrier();
    for (uint at = lane; at < kQueries * 16; at += kChunkPositions) {
        const Span span = spans[at / 16];
        precise float sum = 0.0;
        [[unroll]] for (uint i = 0; i < kChunkPositions; i += 16) {
            const uint p = at % 16 + i;
            if (p >= span.begin && p < span.end) sum = sum + weight_of(at / 16, p);
        }
        lane_results[at] = sum;
    }
    barrier();
}

// The fold of sixteen sums.
float fold_sums(uint q) {
    float sums[16];
    [[unroll]] for (uint i = 0; i < 16; ++i) sums[i] = lane_results[16 * q + i];
    [[unroll]] for (uint n = 8; n > 0; n /= 2) {
        [[unroll]] for (uint i = 0; i < n; ++i) {
            precise const float both = sums[i] + sums[i + n];
            sums[i] = both;
        }
    }
    return sums[0];
}

// Adds the chunk's sum of weights to those of query q.
void add_chunk(Place at, uint q) {
    const Softmax chunk = Softmax(chunks[q].top, fold_sums(q));
    chunks[q] = chunk;
    ways[q] = kNothing;
    if (spans[q].begin >= spans[q].end) return;
    if (kSplit != 0 || params.rows.v[at.first_row + q / kHeads].begin >= at.first) {
        ways[q] = kReplaces;
        totals[q] = chunk;
        return;
    }
    ways[q] = kAdds;
    const Softmax total = totals[q];
    const float top = total.top > chunk.top ? total.top : chunk.top;
    factors[q] = factors_of(total.top, chunk.top, top);
    totals[q] = Softmax(top, add_next(total.sum, chunk.sum, factors[q]));
}

// With kWholePages positions that are read ahead lie in the page of the first, though nobody attends to that itself.
void find_values(Place at, uint position) {
    Words page;
    uint in_block;
    find_position(at, position, page, in_block);
    if (kWholePages != 0) in_block = (at.first + position) % params.block_size;
    const uint first = params.values + at.kv_head * params.head_values + in_block * (params.dims / kElements);
    value_places[position] = uvec4(uvec2(page), first, 0);
}

// Fills weights, times the scales of the values, and what is shared of each query.
void weigh_chunk(Place at, uint lane) {
    float scores[kMostScores];
    find_scores(at, lane, scores);
    barrier();  // the chunk before is done with what is shared
    if (lane < kQueries) spans[lane] = span_of(at, lane);
    barrier();
    const uint first = lane / kScoreLanes * kScoreQueries;  // query
    const float least = uintBitsToFloat(0xff7fffffu);
    [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
        const Span span = spans[first + j];
        [[unroll]] for (uint i = 0; i < kScoreParts; ++i) {
            const uint p = score_position(lane, i);
            const float score = scores[i * kScoreQueries + j];
            set_weight(first + j, p, p >= span.begin && p < span.end && score > least ? score : least);
        }
    }
    find_tops(lane);
    [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
        [[unroll]] for (uint i = 0; i < kScoreParts; ++i) {
            precise const float relative = scores[i * kScoreQueries + j] - chunks[first + j].top;
            scores[i * kScoreQueries + j] = exp_or_zero(relative);
            set_weight(first + j, score_position(lane, i), scores[i * kScoreQueries + j]);
        }
    }
    add_weights(lane);
    if (lane < kQueries) add_chunk(at, lane);
    if (kOneRow) find_values(at, lane);
    if (kType == kQ8) {
        [[unroll]] for (uint i = 0; i < kScoreParts; ++i) {
            Words page;
            uint in_block;
            find_position(at, score_position(lane, i), page, in_block);
            const float scale = scale_of(page, params.values + (at.kv_head + 1) * params.head_values, in_block);
            [[unroll]] for (uint j = 0; j < kScoreQueries; ++j) {
                precise const float weight = scores[i * kScoreQueries + j] * scale;
                set_weight(first + j, score_position(lane, i), weight);
            }
        }
    }
    barrier();
}

// ---- values

// Words of a position's values.
uint value_words() {
    return (params.head_dim + kElements - 1) / kElements;
}

// Of the words that a lane has from `word` on, the k-th. It may be beyond the last.
uint value_word(uint word, uint k) {
    return word + k * kValueLanes;
}

// Where the values of a position are: words from `first` on; those of the next position are `stride` words further.
struct ValueRun {
    Page page;
    uint first;
    uint stride;
};

void read_values(ValueRun run, uint n, uint word, out uint words[kMostParts]) {
    [[unroll]] for (uint k = 0; k < kValueWords; ++k)
        words[k] = run.page.words.v[run.first + n * run.stride + min(value_word(word, k), value_words() - 1)];
}

// values[word][element] of a position.
void values_of(uint words[kMostParts], out float values[kMostElements]) {
    [[unroll]] for (uint i = 0; i < kValueWords * kElements; ++i)
        values[i] = element_of(words[i / kElements], i % kElements);
}

// sums[word][element][query], of query q.
void add_weighted(float values[kMostElements], float weight, uint q, inout float sums[kMostValues]) {
    [[unroll]] for (uint i = 0; i < kValueWords * kElements; ++i)
        sums[i * kValueQueries + q] = fma_exact(values[i], weight, sums[i * kValueQueries + q]);
}

// kValuesAhead positions from p on, a multiple of 4, that all queries attend to.
void add_positions(ValueRun run, uint p, uint word, uint first, inout float sums[kMostValues]) {
    uint words[kMostAhead][kMostParts];
    [[unroll]] for (uint i = 0; i < kValuesAhead; ++i) read_values(run, i, word, words[i]);
    [[unroll]] for (uint i = 0; i < kValuesAhead; i += 4) {
        vec4 four[kMostQueries];
        [[unroll]] for (uint j = 0; j < kValueQueries; ++j) four[j] = weights[(first + j) * kQuarter + (p + i) / 4];
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            float values[kMostElements];
            values_of(words[i + k], values);
            [[unroll]] for (uint j = 0; j < kValueQueries; ++j) add_weighted(values, four[j][k], j, sums);
        }
    }
}

// Position p, which some queries attend to.
void add_position(ValueRun run, uint p, uint word, uint first, inout float sums[kMostValues]) {
    uint words[kMostParts];
    read_values(run, 0, word, words);
    float values[kMostElements];
    values_of(words, values);
    [[unroll]] for (uint j = 0; j < kValueQueries; ++j) {
        const Span span = spans[first + j];
        if (p >= span.begin && p < span.end) add_weighted(values, weight_of(first + j, p), j, sums);
    }
}

// kValuesAhead positions from p on, a multiple of 4; those of `span` are added.
void add_placed(Span span, uint p, uint word, uint first, inout float sums[kMostValues]) {
    const uint stride = params.dims / kElements;
    uint words[kMostAhead][kMostParts];
    [[unroll]] for (uint i = 0; i < kValuesAhead; ++i) {
        const uvec4 place = value_places[kWholePages != 0 ? p : p + i];
        Words page = Words(place.xy);
        const uint at_i = place.z + (kWholePages != 0 ? i * stride : 0);
        [[unroll]] for (uint k = 0; k < kValueWords; ++k)
            words[i][k] = page.v[at_i + min(value_word(word, k), value_words() - 1)];
    }
    [[unroll]] for (uint i = 0; i < kValuesAhead; i += 4) {
        vec4 four[kMostQueries];
        [[unroll]] for (uint j = 0; j < kValueQueries; ++j) four[j] = weights[(first + j) * kQuarter + (p + i) / 4];
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            if (p + i + k < span.begin || p + i + k >= span.end) continue;
            float values[kMostElements];
            values_of(words[i + k], values);
            [[unroll]] for (uint j = 0; j < kValueQueries; ++j) add_weighted(values, four[j][k], j, sums);
        }
    }
}

// Positions of the chunk that every query which is used attends to.
Span span_of_all(Place at) {
    Span all = Span(0, kChunkPositions);
    for (uint q = 0; q < kQueries; ++q) {
        if (is_used(at, q)) all = Span(max(all.begin, spans[q].begin), min(all.end, spans[q].end));
    }
    return all;
}

// Of the lane's words from `word` on, for kValueQueries queries from `first` on. `all`: see span_of_all().
void add_values(Place at, Span all, uint word, uint first, out float sums[kMostValues]) {
    [[unroll]] for (uint i = 0; i < kValueWords * kElements * kValueQueries; ++i) sums[i] = 0.0;
    const uint end = min(at.end - at.first, kChunkPositions);
    uint p = max(at.begin, at.first) - at.first;
    if (kOneRow) {
        const Span span = Span(p, end);
        for (p = p / kValuesAhead * kValuesAhead; p < end; p += kValuesAhead) add_placed(span, p, word, first, sums);
        return;
    }
    uint block = (at.first + p) / params.block_size;
    uint in_block = (at.first + p) % params.block_size;
    ValueRun run;
    run.stride = params.dims / kElements;
    for (; p < end; ++block, in_block = 0) {
        run.page = at.pages.v[block];
        run.first = params.values + at.kv_head * params.head_values + in_block * run.stride;
        const uint end_in_page = min(end, p + params.block_size - in_block);
        while (p < end_in_page) {
            const bool by_all = p >= all.begin && p + kValuesAhead <= min(all.end, end_in_page) && p % 4 == 0;
            if (by_all) {
                add_positions(run, p, word, first, sums);
            } else {
                add_position(run, p, word, first, sums);
            }
            const uint added = by_all ? kValuesAhead : 1;
            p += added;
            run.first += added * run.stride;
        }
    }
}

uint row_of(Place at, uint q) {
    return (params.rows.v[at.first_row + q / kHeads].row * params.n_heads + at.first_head + q % kHeads) *
           params.head_dim;
}

// For attention_combine.comp.
uint partial_of(Place at, uint q) {
    const uint row = at.first_row + q / kHeads;
    const uint before = params.rows.v[row].begin / kChunkPositions;
    return partial_at(row, at.first_head + q % kHeads, at.first / kChunkPositions - before);
}

// Adds the chunk's values to a query's row of the result; or leaves them as a partial.
void store_values(Place at, uint q, uint j, uint word, float sums[kMostValues]) {
    const uint way = ways[q];
    if (way == kNothing) return;
    const uint row = kSplit != 0 ? partial_of(at, q) + 2 : row_of(at, q);
    [[unroll]] for (uint i = 0; i < kValueWords * kElements; ++i) {
        const uint d = value_word(word, i / kElements) * kElements + i % kElements;
        if (d >= params.head_dim) continue;
        const float next = sums[i * kValueQueries + j];
        if (kSplit != 0) {
            params.partials.v[row + d] = next;
        } else {
            params.out_.v[row + d] = way == kReplaces ? next : add_next(params.out_.v[row + d], next, factors[q]);
        }
    }
}

void add_values_of_chunk(Place at, uint lane) {
    const uint first = lane / kValueLanes * kValueQueries;  // query
    const Span all = span_of_all(at);
    for (uint word = lane % kValueLanes; word < value_words(); word += kValueLanes * kValueWords) {
        float sums[kMostValues];
        add_values(at, all, word, first, sums);
        [[unroll]] for (uint j = 0; j < kValueQueries; ++j) store_values(at, first + j, j, word, sums);
    }
}

// Divides results by the sums of weights: a lane those elements that it has added up.
void normalise(Place at, uint lane) {
    const uint first = lane / kValueLanes * kValueQueries;
    for (uint q = first; q < first + kValueQueries; ++q) {
        if (!is_used(at, q)) continue;
        const uint row = row_of(at, q);
        const uint head = at.first_head + q % kHeads;
        float norm = last_factor(totals[q]);
        if (kSinks != 0) norm = last_factor_with(totals[q], params.sinks.v[head]);
        for (uint word = lane % kValueLanes; word < value_words(); word += kValueLanes) {
            const uint end = min((word + 1) * kElements, params.head_dim);
            for (uint d = word * kElements; d < end; ++d) {
                precise const float result = params.out_.v[row + d] * norm;
                params.out_.v[row + d] = result;
            }
        }
    }
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

void fill_query(Place at, uint lane) {
    const uint fours = kScoreQueries * ((params.head_dim + 3) / 4);  // of a part
    [[unroll]] for (uint q = 0; q < kScored; ++q) {
        const uint row = is_used(at, q) ? row_of(at, q) : 0;
        for (uint d = lane; d < params.head_dim; d += kChunkPositions) {
            const uint element = d % 4 * kScoreQueries + q % kScoreQueries;
            query[q / kScoreQueries * fours + d / 4 * kScoreQueries + element / 4][element % 4] = params.q.v[row + d];
        }
    }
    barrier();
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    Place at = find_place();
    if (at.first >= at.end) return;
    fill_query(at, lane);
    for (; at.first < at.end; at.first += kChunkPositions) {
        weigh_chunk(at, lane);
        add_values_of_chunk(at, lane);
        if (kSplit == 0) continue;
        if (lane < kQueries && ways[lane] != kNothing) {
            const uint partial = partial_of(at, lane);
            params.partials.v[partial] = chunks[lane].top;
            params.partials.v[partial + 1] = chunks[lane].sum;
        }
        return;
    }
    normalise(at, lane);
}
