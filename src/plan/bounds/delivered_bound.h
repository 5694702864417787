#pragma once

#include <functional>

#include "plan/problem/lengths.h"
#include "plan/problem/problem.h"
#include "spec/cost_model.h"

// A bound on the decode tokens/s that any placement delivers under any schedule.
//
// What is delivered are the tokens after the first of each answer, in the long run. Each of them is
// one row through all L layers, and of prompts there are P / O rows for it or more (P, O: mean
// lengths). A row of k tokens of context needs their KV where it is computed. Assumed is that a
// request has one sequence and one row at a time in execution (no speculation), that its rows come
// from the coordinator and their tokens go back there before the next one begins, that all KV of a
// request stays on the machines while a row of it is under way, that no prompt is cached, that no
// batch has more than 8192 rows of decodes or of prompts, and that between the sizes that are
// probed (delivered_machine.cc) a batch takes no less time than at the lesser of its neighbours.
// KV memory is counted as if no machine held the embedding or the head. Waiting and copies are not,
// and links carry each row alone and at once: more can only make it less.
//
// Say that F tokens/s are delivered, and that the requests whose KV is on the machines have R
// tokens of context, in the mean over time. For any prices w_k (of the flow's rows of context k in
// all layers), v (of its prompts' rows), u (of KV of a token in one layer) and e (of a token of
// context whose row is in a batch), none negative:
// * A machine with j layers has KV memory for K(j) tokens in each of them, and no layer holds more
//   tokens than there are: in the mean it holds at most j min(K(j), R), which earns u each.
// * It runs at most j F of the rows per second, of every context, and j F P / O of prompts, in one
//   batch and layer at a time. A row of context k in a batch that takes s seconds for a layer
//   costs e k s. E_j: the most that it can earn so (delivered_machine.h).
// * A row is on links for T seconds or more, whatever the placement (least_travel.h). In the mean
//   F C T tokens of context are of rows on links, with C the mean context of rows.
// * The rows in batches and on links at any time are of different requests, so those in batches
//   cost at most e (R - F C T).
// * All rows are computed and all KV lies somewhere, so all machines together earn, less the cost
//   of rows in batches, at least  sum_k w_k + v + u L R - e (R - F C T).
// Hence
//     sum_k w_k + v + u L R - e (R - F C T)
//         <=  sum over machines of max_j (E_j + u j min(K(j), R)),
// and prices that break this prove that F and R do not go together. F is impossible if prices are
// known for every R. For given prices the left side less the right one is concave in R between two
// neighbouring values of K, so it need be looked at there and at the ends only: a few sets of
// prices, each for an interval of R, cover all R up to that which no memory has room for. CLP and
// column generation find them.
//
// Rounding. Any prices prove what they prove, so the solver's roundings do not matter. At them the
// inequality is evaluated in doubles, every operation rounded outwards (plan/bounds/outward.h): the
// left side, the context on links and what rows cost are never more than what is exact, e R and the
// right side never less. All are sums and products of what is not negative, or differences of a
// bound of one kind and one of the other, so they stay bounds, and no margin is needed. The best
// batch at given prices is searched for among points that are exactly convex; what a comparison
// that rounding misleads can cost is in delivered_machine.cc. What is exact is meant of the doubles
// that come in: lengths, KV tokens, times of the cost model, latencies and rates of links.
//
// Contexts. Between two of ContextShare a row counts as a mixture of both. All that it costs and
// needs is linear in its context, so this only widens what schedules can do.

namespace helix::plan {

struct DeliveredOptions {
    LengthMoments lengths = {};
    double relative_tolerance = 2e-3;  // how far above the least provable bound it may lie
    std::function<bool()> stop = {};   // asked between steps; true: the bound so far
};

enum class DeliveredTerm {
    compute,    // with any KV memory it would be the same
    kv_memory,  // with more, the bound would be higher
    links       // as kv_memory, and more so if rows took no time between machines
};
const char* to_string(DeliveredTerm term);

struct DeliveredBound {
    double tokens_per_s = 0;          // of decodes; 0 = there is none: stopped, or no time is known
    double compute_tokens_per_s = 0;  // the bound if KV memory had no end
    // The bound if links took no time. It is above tokens_per_s where they bind.
    double unlinked_tokens_per_s = 0;
    double travel_s = 0;  // of a token's row on links, at the least
    DeliveredTerm binds = DeliveredTerm::compute;
};

DeliveredBound delivered_bound(const Problem& problem, const spec::CostModel& costs,
                               const DeliveredOptions& options);

}  // namespace helix::plan
