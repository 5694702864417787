#pragma once

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

    bool operator==(const ServingPolicy&) const = default;
};

// As plans and their files say it; for nlohmann's JSON, which finds it by its name.
template <typename Json>
void to_json(Json& out, const ServingPolicy& policy) {
    out = {{"prefill_share", policy.prefill_share},
           {"kv_high_water", policy.kv_high_water},
           {"prefill_target_s", policy.prefill_target_s}};
}

}  // namespace helix::spec
