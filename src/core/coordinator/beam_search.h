#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/protocol/request.h"
#include "spec/sampling_params.h"

namespace helix::core {

struct BeamLimits {
    std::int32_t prompt_tokens = 0;
    std::int32_t max_output = 0;
    // Before this many tokens a stop token does not end a beam.
    std::int32_t min_output = 0;
    std::vector<Token> stop_tokens;  // a beam ends with one
    // The log-probabilities that are kept beside each token; -1 = none.
    std::int32_t n_top = -1;
};

// Beam search by vLLM's rules. Of all the running beams' continuations the best
// 2 * width go on: those that end join the finished, of which the best width stay, and of the
// others the best width run. A beam's score is the sum of its log-probabilities over its length to
// the power of length_penalty; the length counts the prompt, and not the stop token. Equal ones are
// ordered by parent, then token: the same answers give the same beams.
class Beams {
  public:
    struct Step {
        Token token = 0;
        float logprob = 0;
        std::vector<spec::TokenLogprob> top;
    };
    struct Finished {
        std::vector<Step> steps;
        double score = 0;
        FinishReason reason = FinishReason::stop;  // stop or length
    };

    Beams(const BeamSearch& rules, BeamLimits limits);

    // The running beams are numbered with the best first; in the beginning there is one, without
    // tokens.
    std::size_t running() const { return running_.size(); }
    std::int32_t length() const { return length_; }  // the tokens of each running beam
    std::vector<Token> tokens(std::size_t beam) const;

    // likely[i] holds the most likely tokens after running beam i, best first; 2 * width of them
    // are enough. Returns which of the beams so far each running beam continues now, or nothing
    // when the search is over.
    std::vector<std::size_t> advance(std::span<const std::vector<spec::TokenLogprob>> likely);
    bool over() const { return running_.empty(); }
    // Returns the n best of the beams that finished, or all of them when there are fewer.
    std::vector<Finished> best(std::size_t n) const;

    // There is more or less memory for the search than there was.
    void set_max_output(std::int32_t tokens) { limits_.max_output = tokens; }

  private:
    struct Node {  // a node of the tree of all kept beams
        std::int32_t parent = -1;
        Step step;
    };
    struct Beam {
        std::int32_t node = -1;
        double logprob = 0;  // the sum over all its tokens
    };
    struct Ended {
        std::int32_t node = -1;
        double score = 0;
        FinishReason reason = FinishReason::stop;
    };
    struct Candidate {
        std::size_t parent = 0;
        Token token = 0;
        float logprob = 0;  // of its token
        double sum = 0;
        bool stops = false;
    };

    std::vector<Candidate> candidates(
        std::span<const std::vector<spec::TokenLogprob>> likely) const;
    std::int32_t add_node(const Candidate& candidate, const std::vector<spec::TokenLogprob>& top);
    double score(double sum, std::int32_t output_tokens) const;
    void keep_finished(std::vector<Ended> ended);
    // Says whether the search may stop by the early-stopping rule while something still runs.
    bool enough(double best_running_sum) const;

    BeamSearch rules_;
    BeamLimits limits_;
    std::int32_t length_ = 0;
    std::vector<Node> nodes_;
    std::vector<Beam> running_ = {Beam{}};
    std::vector<Ended> finished_;  // best first, at most width
};

}  // namespace helix::core
