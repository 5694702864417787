#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "spec/layer_range.h"

namespace helix::spec {

// What a model thinks before it answers, between two marks. Grammars are about what comes behind
// it.
struct Thought {
    static constexpr std::size_t kMaxMarkBytes = 64;
    static constexpr std::size_t kMaxNever = 8;
    std::string open;                // "" = the answer begins inside of the thought
    std::string close;               // "" = there is no thought
    std::vector<std::string> never;  // what may not be in it: it would be read as its end, too
    // After so many tokens of the answer a thought that goes on is closed; -1 = no limit.
    std::int32_t max_tokens = -1;

    bool operator==(const Thought&) const = default;
};

// What an answer's text must be. Workers read the text into a grammar over the model's vocabulary;
// it is checked before a request is accepted.
struct OutputGrammar {
    enum class Kind : std::uint8_t { none, json_object, json_schema, gbnf, tool_calls };
    static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10;
    Kind kind = Kind::none;
    std::string text;  // the schema, the grammar or the form of calls; else empty
    // If above 0 the answer ends within so many tokens, its end token among them: as soon as
    // another token would leave no room for that, the shortest way out is written.
    std::int32_t within_tokens = 0;
    Thought thought = {};

    bool operator==(const OutputGrammar&) const = default;
    bool present() const { return kind != Kind::none || thought.max_tokens >= 0; }
    // Whether a token that was drawn may have to make room for another.
    bool replaces_tokens() const { return within_tokens > 0 || thought.max_tokens >= 0; }
};

// How the next token is drawn. A draw depends only on the logits, these fields, the tokens so far
// and the position, so a request can be resumed anywhere.
struct SamplingParams {
    float temperature = 1.0F;  // 0 = greedy; ties go to the lowest token id
    float top_p = 1.0F;
    std::int32_t top_k = 0;  // 0 = off
    float min_p = 0.0F;
    float repetition_penalty = 1.0F;  // over prompt and output, as in vLLM
    float frequency_penalty = 0.0F;   // over output
    float presence_penalty = 0.0F;    // over output
    std::vector<std::pair<Token, float>> logit_bias;
    std::uint64_t seed = 0;
    std::int32_t n_logprobs = -1;  // -1 = none; k = that of the sampled token and the k best
    OutputGrammar grammar;

    bool operator==(const SamplingParams&) const = default;
    bool needs_history() const {
        return repetition_penalty != 1.0F || frequency_penalty != 0.0F ||
               presence_penalty != 0.0F || grammar.present();
    }
};

// The seed of one member of a request's sequence group: the request's own for member 0.
inline std::uint64_t member_seed(std::uint64_t seed, std::uint32_t member) {
    return member == 0 ? seed : base::hash_pair(seed, member);
}

struct TokenLogprob {
    Token token = 0;
    float logprob = 0;
    bool operator==(const TokenLogprob&) const = default;
};

}  // namespace helix::spec
