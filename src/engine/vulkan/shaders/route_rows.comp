#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// An invocation chooses the experts of one row. Scores are work space afterwards.
layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Push {
    Floats scores, bias;
    Words chosen;
    Floats weights, expert_factors;
    uint rows, n_experts, n_used, normalise;
    float factor;
    uint sigmoid, has_bias, has_factors, n_groups, n_groups_used, unused;
};

bool is_taken(uint at, uint n, uint expert) {
    for (uint i = 0u; i < n; ++i) {
        if (chosen.v[at + i] == expert) return true;
    }
    return false;
}

float score_of(uint first, uint expert) {
    float score = scores.v[first + expert];
    if (has_bias == 0u) return score;
    precise float biased = score + bias.v[expert];
    return biased;
}

const uint kMostGroups = 32u;  // kMaxExpertGroups of model/limits.h

// The highest of the scores that were offered; of equal ones the first, and no numbers last.
struct Best {
    int number;
    float score;
};

void offer(inout Best best, uint number, float score) {
    bool better = best.number < 0 || (!is_nan(score) && (is_nan(best.score) || score > best.score));
    if (better) best = Best(int(number), score);
}

// The sum of the two highest scores of a group.
float score_of_group(uint first, uint group) {
    uint size = n_experts / n_groups;
    Best one = Best(-1, 0.0), two = Best(-1, 0.0);
    for (uint e = group * size; e < (group + 1u) * size; ++e) offer(one, e, score_of(first, e));
    for (uint e = group * size; e < (group + 1u) * size; ++e) {
        if (int(e) != one.number) offer(two, e, score_of(first, e));
    }
    precise float sum = one.score + two.score;
    return sum;
}

// A bit for each group that is kept.
uint kept_groups(uint first) {
    float sums[kMostGroups];
    for (uint g = 0u; g < n_groups; ++g) sums[g] = score_of_group(first, g);
    uint kept = 0u;
    for (uint n = 0u; n < n_groups_used; ++n) {
        Best best = Best(-1, 0.0);
        for (uint g = 0u; g < n_groups; ++g) {
            if (((kept >> g) & 1u) == 0u) offer(best, g, sums[g]);
        }
        kept |= 1u << uint(best.number);
    }
    return kept;
}

// Of those not taken the one with the highest score.
uint best_of(uint first, uint at, uint n, uint kept) {
    uint size = n_experts / n_groups;
    Best best = Best(-1, 0.0);
    for (uint g = 0u; g < n_groups; ++g) {
        if (((kept >> g) & 1u) == 0u) continue;
        for (uint e = g * size; e < (g + 1u) * size; ++e) {
            if (!is_taken(at, n, e)) offer(best, e, score_of(first, e));
        }
    }
    return uint(best.number);
}

void insert_sorted(uint at, uint n) {
    for (uint i = at + n; i > at && chosen.v[i - 1u] > chosen.v[i]; --i) {
        uint other = chosen.v[i - 1u];
        chosen.v[i - 1u] = chosen.v[i];
        chosen.v[i] = other;
    }
}

void choose(uint first, uint at) {
    uint kept = n_groups > 1u ? kept_groups(first) : 1u;
    for (uint n = 0u; n < n_used; ++n) {
        chosen.v[at + n] = best_of(first, at, n, kept);
        insert_sorted(at, n);
    }
}

void route_by_softmax(uint first, uint at) {
    choose(first, at);
    float top = uintBitsToFloat(0xff800000u);
    for (uint n = 0u; n < n_used; ++n) {
        float score = scores.v[first + chosen.v[at + n]];
        top = top < score ? score : top;
    }
    for (uint e = 0u; e < n_experts; ++e) {
        precise float shifted = scores.v[first + e] - top;
        scores.v[first + e] = exp_or_zero(shifted);
    }
    precise float sum = 0.0;
    uint count = normalise != 0u ? n_used : n_experts;
    for (uint n = 0u; n < count; ++n) sum = sum + scores.v[first + (normalise != 0u ? chosen.v[at + n] : n)];
    for (uint n = 0u; n < n_used; ++n) {
        precise float weight = div(scores.v[first + chosen.v[at + n]], sum) * factor;
        weights.v[at + n] = weight;
    }
}

// Without a bias by the scores themselves, of which different ones may have the same sigmoid.
void route_by_sigmoid(uint first, uint at) {
    if (has_bias == 0u) choose(first, at);
    for (uint e = 0u; e < n_experts; ++e) {
        precise float minus = 0.0 - scores.v[first + e];
        precise float below = 1.0 + exp_of(minus);
        scores.v[first + e] = div(1.0, below);
    }
    if (has_bias != 0u) choose(first, at);
    precise float sum = 1e-20;
    for (uint n = 0u; n < n_used; ++n) sum = sum + scores.v[first + chosen.v[at + n]];
    for (uint n = 0u; n < n_used; ++n) {
        float score = scores.v[first + chosen.v[at + n]];
        precise float weight = (normalise != 0u ? div(score, sum) : score) * factor;
        weights.v[at + n] = weight;
    }
}

void apply_factors(uint at) {
    for (uint n = 0u; n < n_used; ++n) {
        precise const float weight = weights.v[at + n] * expert_factors.v[chosen.v[at + n]];
        weights.v[at + n] = weight;
    }
}

void main() {
    uint step = gl_NumWorkGroups.x * 32u;
    for (uint row = gl_GlobalInvocationID.x; row < rows; row += step) {
        if (sigmoid != 0u) {
            route_by_sigmoid(row * n_experts, row * n_used);
        } else {
            route_by_softmax(row * n_experts, row * n_used);
        }
        if (has_factors != 0u) apply_factors(row * n_used);
    }
}
