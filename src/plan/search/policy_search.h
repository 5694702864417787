#pragma once

#include "plan/problem/problem.h"
#include "plan/search/plan_pool.h"
#include "plan/search/throughput_search.h"
#include "spec/serving_policy.h"

namespace helix::plan {

// What layouts are judged under where the policy is chosen with them: prompts get less time than
// under the usual policy, as on most clusters that were tried they do under the one chosen.
spec::ServingPolicy first_policy();

// Looks for the policy that the plans are served most under, by last looks, on a grid of prefill
// shares from 0.5 to 4.5, high waters from 85 to 100 %, prefill targets from 2 to 4 s, and 0.5 to 3
// groups of decodes for each machine of a pipeline. It takes the four by turns, and goes from the
// best plan to the better of its two neighbours for as long as one is better. Where none is by any
// of the four, the other plans that had a last look are judged under the best one's policy, and
// each layout once with roles for its machines (role_search.h); it goes on if one of them wins.
// Roles have to serve 3 % more: they leave less room for swings. A longer prefill target has to
// serve more: 3 % for one twice as long. Ends when nothing wins, or with the time. The pool's first
// plan is never worse after it.
void search_policies(PlanPool& pool, const Problem& problem, const ThroughputOptions& options);

}  // namespace helix::plan
