#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/protocol/types.h"
#include "spec/pooling.h"
#include "spec/sampling_params.h"

namespace helix::core {

enum class EarlyStopping : std::uint8_t {
    no,     // over when no running beam is better than the worst of enough finished ones
    yes,    // over as soon as enough have finished
    never,  // over when no running beam could become better, however long it grew
};
inline constexpr EarlyStopping kLastEarlyStopping = EarlyStopping::never;

struct BeamSearch {
    std::int32_t width = 1;
    double length_penalty = 1;
    EarlyStopping early_stopping = EarlyStopping::no;
};

struct Request {
    RequestId id;  // never used before
    std::vector<Token> prompt;
    spec::SamplingParams sampling;
    std::int32_t max_tokens = 0;         // most tokens of output; 0 = as many as the context allows
    std::int32_t min_tokens = 0;         // stop tokens do not end it before this many
    std::vector<Token> stop_tokens;      // end of text and the caller's
    std::int32_t priority = 0;           // higher goes first
    std::uint64_t client = 0;            // whose it is: any number for each client; 0: not known
    std::int32_t max_draft_tokens = -1;  // to draft ahead; -1: as SpeculationConfig says
    std::vector<Token> prediction;  // what the output may be like: drafts are looked up there, too
    // The number of answers. Without beam they are drawn apart, and the draws of an answer depend
    // on its number; with beam they are the best of the search, which has a width of at least n.
    std::int32_t n = 1;
    std::optional<BeamSearch> beam = {};
    // The log-probabilities of the prompt's tokens are asked for; needs sampling.n_logprobs.
    bool score_prompt = false;
    // Not none: the answer is the prompt's embedding, pooled so, and no token. Such a request has n
    // and max_tokens of 1, no beam, and its prompt is not scored.
    spec::Pooling pooling = spec::Pooling::none;
    bool timed = false;  // what each stage does for it is told by StageTimed
    bool wants_embedding() const { return pooling != spec::Pooling::none; }
    // True for a request that takes more than one sequence to answer.
    bool is_group() const { return n > 1 || beam.has_value(); }
};

}  // namespace helix::core
