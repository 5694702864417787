#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace helix::spec {

// ServingPolicy is what of the policy that serves a placement depends on the placement: the planner
// chooses it with the layers, a plan's file carries it, and the coordinator that serves the plan
// keeps to it. Without changes it is what is right for most.
struct ServingPolicy {
    // How many times the decodes' time prompts may take on a machine while both wait; above 0.
    // Where requests hold KV memory for long, less of it serves more: decodes come sooner to their
    // end, and memory is free sooner.
    double prefill_share = 3;
    // Fuller workers get no new requests (spec/kv_fill.h); above 0, at most 1. What is above it is
    // for answers that are longer than expected. Where few requests fit, more of it serves more,
    // although some then have to wait for others in the midst of their answers.
    double kv_high_water = 0.9;
    // Under load so many prompts are in the pipelines that a first token comes after about this
    // time; above 0. Where links are slow more of them keep more machines at work.
    double prefill_target_s = 2;
    // Decodes travel in at most so many groups for each machine of the shortest pipeline; above 0,
    // at most kMostGroupsPerMachine. With one each, all machines have work at the same time. Where
    // rows are long on their way more of them keep machines at work meanwhile; where a batch costs
    // much whatever is in it fewer and larger ones serve more.
    double groups_per_machine = 1;

    bool operator==(const ServingPolicy&) const = default;
};

inline constexpr double kMostGroupsPerMachine = 8;
// More than any pipeline of machines comes to.
inline constexpr std::int32_t kMostDecodeGroups = 32768;

// The groups that decodes travel in along a pipeline of so many machines.
inline std::int32_t decode_groups(const ServingPolicy& policy, std::int32_t machines) {
    const double groups = std::round(policy.groups_per_machine * machines);
    return static_cast<std::int32_t>(
        std::clamp(groups, 1.0, static_cast<double>(kMostDecodeGroups)));
}

// As plans and their files say it; for nlohmann's JSON, which finds it by its name.
template <typename Json>
void to_json(Json& out, const ServingPolicy& policy) {
    out = {{"prefill_share", policy.prefill_share},
           {"kv_high_water", policy.kv_high_water},
           {"prefill_target_s", policy.prefill_target_s},
           {"groups_per_machine", policy.groups_per_machine}};
}

}  // namespace helix::spec
