#include "cli/batching_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace helix::cli {
namespace {

constexpr const char* kVllm = "vllm";

// The option of vLLM's order that was given first; null: none was.
const char* budget_given(const BatchingArguments& a) {
    if (a.max_batched_tokens) return "--max-batched-tokens";
    if (a.max_num_seqs) return "--max-num-seqs";
    return a.delay_factor ? "--delay-factor" : nullptr;
}

}  // namespace

void add_batching_options(CLI::App& command, BatchingArguments& a) {
    command.add_option(
        "--batching", a.batching,
        "order of work on a machine. helix policy: helix, or vllm (prompts first, whole, and no "
        "decodes beside them). reference policy: fifo as published, decode-first, or two-passes as "
        "the published prototype's workers [helix, and fifo under reference]");
    command
        .add_option("--prompt-every", a.prompt_every,
                    "decode-first: one layer of prompts after so many of decodes; 0: never while "
                    "decodes wait")
        ->capture_default_str();
    command.add_option("--max-batched-tokens", a.max_batched_tokens,
                       "vllm: most tokens of a batch of prompts [the model's context, at least "
                       "2048]");
    command.add_option("--max-num-seqs", a.max_num_seqs,
                       "vllm: most sequences that run, for each batch in flight [256]");
    command.add_option("--delay-factor", a.delay_factor,
                       "vllm: while others run, prompts wait so many times as long as the last "
                       "batch of prompts took, so that more go together [0]");
}

base::Result<std::optional<core::PromptsFirst>> own_batching(const BatchingArguments& a) {
    if (a.batching != kVllm) {
        if (!a.batching.empty() && a.batching != "helix") {
            if (a.batching == "fifo" || a.batching == "decode-first" || a.batching == "two-passes")
                return base::invalid("--batching " + a.batching + ": needs --policy reference");
            return base::invalid("--batching: '" + a.batching + "' is none of helix, vllm");
        }
        const char* const given = budget_given(a);
        if (given != nullptr) return base::invalid(std::string(given) + ": needs --batching vllm");
        return std::optional<core::PromptsFirst>();
    }
    core::PromptsFirst how;
    how.max_batched_tokens = a.max_batched_tokens.value_or(0);
    how.max_seqs = a.max_num_seqs.value_or(how.max_seqs);
    how.delay_factor = a.delay_factor.value_or(how.delay_factor);
    if (how.max_seqs < 1) {
        return base::invalid(fmt::format("--max-num-seqs: {} is below 1", how.max_seqs));
    }
    if (a.max_batched_tokens && how.max_batched_tokens < how.max_seqs) {
        return base::invalid(
            fmt::format("--max-batched-tokens: {} is less than the {} of --max-num-seqs",
                        how.max_batched_tokens, how.max_seqs));
    }
    constexpr double kMostDelay = 1000;
    if (!(how.delay_factor >= 0 && how.delay_factor <= kMostDelay)) {
        return base::invalid(fmt::format("--delay-factor: {:g} is not between 0 and {:g}",
                                         how.delay_factor, kMostDelay));
    }
    return std::optional(how);
}

base::Result<std::string> reference_batching(const BatchingArguments& a) {
    if (a.batching == kVllm || a.batching == "helix") {
        return base::invalid("--batching " + a.batching + ": needs --policy helix");
    }
    const char* const given = budget_given(a);
    if (given != nullptr) return base::invalid(std::string(given) + ": needs --batching vllm");
    return a.batching.empty() ? std::string("fifo") : a.batching;
}

}  // namespace helix::cli
