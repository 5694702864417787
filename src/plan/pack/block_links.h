#pragma once

#include <optional>

#include "plan/capacity.h"
#include "plan/flow/flow_graph.h"
#include "plan/pack/block_pack.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::plan {

// Block plans for clusters whose links bind: nodes that wide links connect form groups
// (link_groups), blocks stay inside of groups, and few changes of group, with enough nodes on both
// sides, carry the flow over the narrow links. BlockPlan::flow is the maximum flow over the real
// links. Nothing where there are no such groups, more than Crossings::kMostGroups, or no plan.
//
// The plan of most flow below `upper`, a bound on any.
std::optional<BlockPlan> best_linked_blocks(const spec::ClusterSpec& cluster,
                                            const spec::ModelSpec& model,
                                            const CapacityTable& capacities, double upper,
                                            const BlockOptions& options);

// Exchanges nodes of equal type so that links carry more of the plan; never less. plan.flow becomes
// the maximum flow over the real links.
void assign_to_links(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                     const CapacityTable& capacities, const BlockOptions& options, BlockPlan& plan);

}  // namespace helix::plan
