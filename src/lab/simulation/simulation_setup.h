#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "lab/problem/problem.h"
#include "plan/predict/performance.h"
#include "sim/published/reference_setup.h"
#include "sim/published/reference_world.h"
#include "sim/throughput/helix_run.h"
#include "spec/kv_type.h"
#include "spec/placement.h"
#include "spec/placement_file.h"
#include "spec/serving_policy.h"

// A problem and a layout made into what the simulator runs, under either policy.

namespace helix::lab {

// A layout for this problem. Files of one type's machines, or of a part of the cluster, number
// their nodes on their own: the k-th of a type is then taken to be the cluster's k-th of that type.
// Errors name the file.
base::Result<spec::PlacementFile> read_simulated_layout(const std::string& path,
                                                        const Problem& problem);

// The type that KV is to have by a layout's file; nothing where it says none, as a published run's
// replay does not.
base::Result<std::optional<spec::KvType>> layout_kv_type(const std::string& path);

// Fills in the flow that the scheduler follows, where the file has none: a maximum flow over its
// links, as published layouts have them; or, for a file that has only layers, the planner's split
// for what is served under this batching. Without needed, a layout that the tables do not cover is
// left as it is.
base::Status add_flows(const Problem& problem, spec::PlacementFile& file, plan::Batching batching,
                       bool needed);

// Adds the links that the plan does not use, without flow, for schedulers that go beyond it: the
// file's, or all of the cluster's between machines that hold layers where it lists none.
void add_idle_links(const Problem& problem, spec::PlacementFile& file);

// Why only the published policy can run this layout: it is a published run's replay, or separate
// pipelines that hold more layers than the tables cover. "" when our own can.
base::Result<std::string> needs_published_policy(const std::string& path, const Problem& problem,
                                                 const std::string& scheduler);

// Our own policy. The problem must outlive the run.
sim::HelixSetup helix_setup(const Problem& problem, const spec::Placement& placement,
                            const std::vector<spec::LinkFlow>& flows,
                            const spec::ServingPolicy& policy = {});

// Workers do their work in vLLM's order (core/batch/prompts_first.h), and only KV memory says how
// many prompts are inside. max_batched_tokens 0 is what vLLM takes without the option: the model's
// context, or 2048 if that is more. The setup is under load.
void work_as_vllm(sim::HelixSetup& setup, core::PromptsFirst how);

struct ReferenceLayout {
    sim::ReferenceScheduler scheduler = sim::ReferenceScheduler::max_flow;
    bool beyond_tables = false;  // separate pipelines hold more layers than the tables cover
};
// The published policy; path: a layout, or a published run's replay. The problem has tables.
base::Result<sim::ReferenceSetup> reference_setup_from(const std::string& path,
                                                       const Problem& problem,
                                                       const ReferenceLayout& layout);

// The same from a layout that read_simulated_layout() or the planner gave.
base::Result<sim::ReferenceSetup> reference_setup_from(spec::PlacementFile file,
                                                       const Problem& problem,
                                                       const ReferenceLayout& layout);

// The layers of the problem's nodes; none where the setup has no such node.
spec::Placement placement_of(const Problem& problem, const sim::ReferenceSetup& reference);

// Our own policy on exactly what the published one is given: layers, KV memory, and the flows or,
// where the links have none, equal shares of them. Load and policy keep their defaults; the problem
// must outlive the run.
sim::HelixSetup helix_setup_like(const Problem& problem, const sim::ReferenceSetup& reference);

}  // namespace helix::lab
