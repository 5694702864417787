#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

// How long an answer may stand still when a machine that serves it dies. Nothing of it is
// lost: it goes on with the next token on what is left of the cluster.
//
//   bound = detection + replacement + recompute
//
//   detection    until the coordinator knows of the death
//   replacement  0 where the other machines still make whole pipelines. Else a new placement is
//   planned and loaded:
//                settle + plan + the longest load. At worst each survivor loads all layers that fit
//                it, most * layer bytes / (load rate, or its link from the coordinator where that
//                is slower), all side by side.
//   recompute    prompt and output so far are computed anew:
//                (context, rounded up to whole chunks) * requests * the slowest way / prompt share.
//                A way takes each layer from the slowest that holds it; one that holds j layers
//                takes 1 / (j T(j)) for a token and a layer (plan/problem/capacity.h), which counts
//                prompt and output tokens alike, so no less than what a prompt token takes. While
//                others decode on a machine, prompts have at least the prompt share of its time.
//
// It holds while the machines that are left have KV memory for what they take over; what has to
// wait for room waits longer.

namespace helix::plan {

// The part of a machine's time that prompts may take while decodes wait, too.
inline double prompts_part(const spec::ServingPolicy& policy) {
    return policy.prefill_share / (1 + policy.prefill_share);
}

struct StallRule {
    double detection_s = 2;         // net::TransportOptions: heartbeats, by default
    double settle_s = 0.3;          // core::CoordinatorConfig::settle
    double plan_s = 3;              // what helix serve gives its planner
    double load_bytes_per_s = 5e8;  // of weights, by each machine
    double context_tokens = 995;    // prompt and output of the Azure conversation trace, means
    double chunk_tokens = 512;      // of a prompt, computed together
    // Of a machine's time, while others decode there.
    double prompt_share = prompts_part(spec::ServingPolicy());
    double requests = 1;  // that are recomputed one after the other
};

// After the loss of one machine (nodes with one host fail together) that carries flow.
struct Stall {
    std::string part;      // "L4-3", "a and b"
    bool whole = true;     // the others serve at once
    bool possible = true;  // or could, with other layers; else requests wait for a machine
    double detection_s = 0;
    double replacement_s = 0;
    double recompute_s = 0;
    double bound_s() const { return detection_s + replacement_s + recompute_s; }
};

// The longest first; those without a bound before them. The placement must pass check_placement.
std::vector<Stall> stalls_after_losses(const Problem& problem, const spec::Placement& placement,
                                       const FlowOptions& options, const StallRule& rule);

// "an answer of 995 tokens stands still for at most 2.4 s when a machine dies (L4-3)", a line for
// each kind of loss; empty where nothing was looked at.
std::string describe_stalls(const std::vector<Stall>& stalls, const StallRule& rule);

}  // namespace helix::plan
