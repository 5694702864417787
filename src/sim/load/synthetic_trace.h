#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "sim/load/load.h"
#include "sim/load/trace_file.h"

// Requests made up to look like the conversations of the Azure LLM inference trace (2023): a
// mixture of log-normal prompt and output lengths fitted to its published lengths, prompts cut to
// 4..2048 and outputs to 4..1024 tokens, as the paper filters them. Mean 763.1 and 232.4 tokens.

namespace helix::sim {

constexpr double kConversationMeanPrompt = 763.08;
constexpr double kConversationMeanOutput = 232.45;
constexpr std::int32_t kConversationLeastTokens = 4;
constexpr std::int32_t kConversationMostPrompt = 2048;
constexpr std::int32_t kConversationMostOutput = 1024;

struct SyntheticTraceOptions {
    std::int64_t requests = 1000;
    double requests_per_s = 1;
    // Standard deviation of the gaps between arrivals over their mean: 1 = Poisson arrivals; more =
    // bursts (gamma distributed gaps); 0 = even gaps.
    double gap_cv = 1;
    std::uint64_t seed = 0;
};

// Only the lengths of a request are set.
TraceRequest draw_conversation(base::Random& random);
// 20,000 conversations to draw from, always the same ones.
LengthSource conversation_lengths();
// Seconds to the next arrival.
double draw_gap(base::Random& random, double requests_per_s, double gap_cv);

// Equal options give equal traces. Errors name the option that is out of range.
base::Result<std::vector<TraceRequest>> synthetic_trace(const SyntheticTraceOptions& options);

}  // namespace helix::sim
