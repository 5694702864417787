#include "cli/batching_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "spec/word_choice.h"

namespace helix::cli {
namespace {

constexpr const char* kHelix = "helix";
constexpr const char* kVllm = "vllm";

// The option of vLLM's order that was given first; null: none was.
const char* budget_given(const BatchingArguments& a) {
    if (a.max_batched_tokens) return "--max-batched-tokens";
    if (a.max_num_seqs) return "--max-num-seqs";
    return a.delay_factor ? "--delay-factor" : nullptr;
}

base::Status check_budgets(const BatchingArguments& a) {
    const char* const given = budget_given(a);
    if (given == nullptr || a.batching == kVllm) return base::Ok{};
    return base::invalid(std::string(given) + ": needs --batching vllm");
}

base::Result<sim::ReferenceBatching::Order> reference_order(const std::string& word) {
    using Order = sim::ReferenceBatching::Order;
    return spec::choose_word<Order>("--batching", word,
                                    {{"fifo", Order::fifo},
                                     {"decode-first", Order::decode_first},
                                     {"two-passes", Order::two_passes}});
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
    if (reference_order(a.batching).ok()) {
        return base::invalid("--batching " + a.batching + ": needs --policy reference");
    }
    TRY(const bool as_vllm,
        spec::choose_word<bool>("--batching", a.batching.empty() ? kHelix : a.batching,
                                {{kHelix, false}, {kVllm, true}}));
    TRY_VOID(check_budgets(a));
    if (!as_vllm) return std::optional<core::PromptsFirst>();
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

base::Result<sim::ReferenceBatching::Order> reference_batching(const BatchingArguments& a) {
    if (a.batching == kVllm || a.batching == kHelix) {
        return base::invalid("--batching " + a.batching + ": needs --policy helix");
    }
    TRY_VOID(check_budgets(a));
    return reference_order(a.batching.empty() ? "fifo" : a.batching);
}

}  // namespace helix::cli
