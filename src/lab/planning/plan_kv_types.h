#pragma once

#include <span>

#include "base/result.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"
#include "plan/report/plan_report.h"
#include "spec/kv_type.h"

namespace helix::lab {

// A KV type other than the first changes what the model says, so it has to serve more than the ones
// before it by this much.
inline constexpr double kWorthAnotherKvType = 1.03;

struct KvPlan {
    Problem problem;  // with the type that was chosen
    plan::PlanReport report;
};

// Plans the session's cluster with KV in each of these types, each in an equal part of the budget,
// and from the plan that is best so far; keeps the first type unless a later one serves
// kWorthAnotherKvType times as much, by the judge where both plans had its longer looks, else as
// predicted (Objective::flow: by flow). Before a later one is taken, the first is planned once more
// in the last part of the budget, from the later one's plan and policy: what they are worth in any
// type speaks for none. The report's notes have the figures of all. A type in which nothing can be
// planned is passed over; errors: none can be.
base::Result<KvPlan> plan_kv_types(const PlanSession& session, std::span<const spec::KvType> types);

}  // namespace helix::lab
