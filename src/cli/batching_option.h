#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/protocol/worker_config.h"
#include "sim/published/reference_setup.h"

namespace CLI {
class App;
}

// The order in which simulated workers do their work.

namespace helix::cli {

struct BatchingArguments {
    std::string batching;  // empty: the policy's own
    std::int32_t prompt_every = 4;
    std::optional<std::int32_t> max_batched_tokens;
    std::optional<std::int32_t> max_num_seqs;
    std::optional<double> delay_factor;
};

void add_batching_options(CLI::App& command, BatchingArguments& a);

// The helix policy's: vLLM's order, or none for our own. max_batched_tokens is 0 where it was not
// given.
base::Result<std::optional<core::PromptsFirst>> own_batching(const BatchingArguments& a);
// The reference policy's. Errors: words and budgets of the helix policy.
base::Result<sim::ReferenceBatching::Order> reference_batching(const BatchingArguments& a);

}  // namespace helix::cli
