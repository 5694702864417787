#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/problem/node_types.h"
#include "plan/problem/problem.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

// The configuration bound on the flow of any placement, with and without partial inference.
//
// In a placement of flow F every layer is held by nodes whose T sum to at least F. Call the set of
// holders of a layer its cover: a multiset of (type, j), j = how many layers that node holds. A
// node with j layers is in j covers, so with z_C = how many layers have cover C and x_tj = how many
// nodes of type t hold j layers
//     sum_C z_C = L,   sum_C a_C,tj z_C = j x_tj,   sum_j x_tj <= n_t.
// For any prices w_tj >= 0, let k be the price of the cheapest cover. Then
//     L k <= sum_t n_t max_j j w_tj,
// and prices that break this prove that no placement has flow F. CLP and column generation find
// good prices; the proof is then checked in whole numbers (T rounded up and F down to 2^-20
// tokens/s), so no rounding of the solver can make the bound wrong.
//
// Links. Take the groups of nodes that links of capacity >= F connect (in either direction); every
// link between groups is narrower than F. Let m be the least number of such links that carry F
// together, and call a layer with one holder single. A node that holds single layers has T >= F.
// * If no group can hold L layers with nodes of T >= F alone, not all layers are single: else all
//   flow would take one path, which leaves its group somewhere and does not fit that link.
// * If no group can so hold even L - 1 layers, and all layers but one are single, then that one has
//   at least m holders: with d holders there are d paths, which differ only at that layer. The
//   holders of the single layers are not all in one group, so every path crosses between groups;
//   one crossing link of each path gives a cut of at most d links, so d >= m.
// With s = single layers and d = layers of 2 .. m-1 holders therefore s <= L - 1, or even
// s + d / 2 <= L - 1: one more row of the program. Nothing here depends on where in its range a
// node is entered, so it holds with partial inference too.

namespace helix::plan {

struct ConfigBoundOptions {
    double known_flow = 0;             // of some placement: the bound is not sought below it
    double relative_tolerance = 1e-6;  // how far above the least provable bound it may lie
    bool links = true;                 // apply the rows for links that bind
    std::function<bool()> stop = {};   // asked between steps; true: the bound so far
};

// No placement has more flow than this (tokens/s). At most flow_bounds().best.
double config_bound(const Problem& problem, const ConfigBoundOptions& options);

// What the links say for a flow F (see above): the first condition, the second and m.
struct LinkRow {
    bool not_all_single = false;
    bool wide_crossing = false;
    std::int32_t crossing_links = 1;  // m
};
LinkRow link_row(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const std::vector<NodeType>& types, double flow);

// True only with proof that no placement on these types has flow of at least `flow` > 0. `stop` may
// end it early with false.
bool proves_no_flow(const std::vector<NodeType>& types, std::int32_t n_layers, const LinkRow& links,
                    double flow, const std::function<bool()>& stop);

}  // namespace helix::plan
