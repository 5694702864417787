#pragma once

#include <optional>

#include "plan/flow/flow_graph.h"
#include "plan/pack/block_pack.h"
#include "plan/problem/problem.h"

namespace helix::plan {

// Block plans for clusters whose links bind: nodes that wide links connect form groups
// (link_groups), blocks stay inside of groups, and few changes of group, with enough nodes on both
// sides, carry the flow over the narrow links. BlockPlan::flow is the maximum flow over the real
// links. Nothing where there are no such groups, more than Crossings::kMostGroups, or no plan.
//
// The plan of most flow below `upper`, a bound on any.
std::optional<BlockPlan> best_linked_blocks(const Problem& problem, double upper,
                                            const BlockOptions& options);

// Exchanges nodes of equal type so that links carry more of the plan; never less. plan.flow becomes
// the maximum flow over the real links.
void assign_to_links(const Problem& problem, const BlockOptions& options, BlockPlan& plan);

}  // namespace helix::plan
