#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/matmul.h"
#include "engine/ops/memory.h"

// A mixture of experts, in the steps of a row's visits to the experts that it is routed to. There
// are n_used visits for each row; in buffers they lie in an order that only the device knows, which
// the routing holds: those to one expert beside each other.

namespace helix::engine::ops {

// Chooses the n_used experts with the highest scores of each row; of equal ones the lower number,
// and scores that are no numbers last. A visit's weight is exp(score) over the sum of exp(scores)
// of all experts, or of the chosen ones, and then times the factor. With sigmoid a score is first
// put through 1 / (1 + exp(-score)), and the weights are these numbers themselves, or over their
// sum of the chosen ones.
//
// Experts may be in groups of equal size, of which a row keeps a few: those with the highest sums
// of the two highest numbers that their experts are chosen by; of equal ones the lower number. It
// then chooses among the experts of the groups that it keeps (DeepSeek-V3,
// arXiv:2412.19437, 2.1.2).
struct RouteRows {
    Buffer& scores;  // [rows, n_experts]; work space afterwards
    std::int64_t rows = 0;
    int n_experts = 0;
    int n_used = 0;
    bool normalise = false;  // over the chosen ones
    Routing& routing;        // out
    float factor = 1;        // of the weights
    bool sigmoid = false;
    // [n_experts], with sigmoid: added to the numbers that experts are chosen by, not to those that
    // weights are made of. Null: none, and experts are chosen by the scores themselves, since
    // sigmoids of different ones may round to the same number.
    const Buffer* bias = nullptr;
    // [n_experts]: one more factor of the weights of visits to each. Null: none.
    const Buffer* expert_factors = nullptr;
    // With a bias: at most 32 groups of at least two experts, and the kept ones.
    int n_groups = 1;
    int n_groups_used = 1;
};

// y = the row of x that makes the visit; or, weighted, the weight times it.
struct GatherVisits {
    const Routing& routing;
    const Buffer& x;  // [rows, width]
    Buffer& y;        // [visits, width]
    std::int64_t width = 0;
    bool weighted = false;
};

// As Matmul, of every visit with its expert's matrix. Matrices have one for each expert.
struct ExpertMatmul {
    const Routing& routing;
    const Buffer& x;  // [visits, width of x]
    std::span<const Projection> to;
};

// y += the sum over the row's visits of weight times x, in the order of the experts' numbers; or
// the sum takes the place of what was in y. Not weighted: each weight is one.
struct AddVisits {
    const Routing& routing;
    const Buffer& x;  // [visits, width]
    Buffer& y;        // [rows, width]
    std::int64_t width = 0;
    bool replace = false;
    bool weighted = true;
};

}  // namespace helix::engine::ops
