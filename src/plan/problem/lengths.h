#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace helix::plan {

// Rows of decodes that have so many tokens of context.
struct ContextShare {
    double tokens = 0;
    double share = 0;  // of all such rows
};

// One request as it is asked for.
struct LengthPair {
    double prompt = 0;
    double output = 0;
};

// The context of a decode's row is the tokens before it whose KV it reads: an answer of O tokens
// has rows at prompt .. prompt + O - 2. The distribution as a few contexts, rising: a row between
// two of them counts in parts as one of each, so that the mean stays and no row has more or less
// context than all of these. The shares sum to 1.
std::vector<ContextShare> context_shares(const std::vector<LengthPair>& requests);
// Of the Azure conversation trace, as below.
const std::vector<ContextShare>& conversation_contexts();

// What of the distribution of request lengths matters for throughput: means of the prompt's and the
// output's tokens and of their products. Defaults: the Azure conversation trace of 2023, prompts up
// to 2048 and outputs up to 1024 tokens.
struct LengthMoments {
    double prompt = 763.08;
    double output = 232.45;
    double prompt_prompt = 779921;
    double prompt_output = 214806;
    std::vector<ContextShare> contexts = conversation_contexts();  // of decodes' rows

    // Tokens of prompt behind each output token: long answers decode longer, so their prompts count
    // more often than in the plain mean.
    double prompt_while_decoding() const { return prompt_output / output; }
    // E[X^2] / E[X]^2 of the prompt.
    double prompt_spread() const { return prompt_prompt / (prompt * prompt); }
};

// The moments where every request is as long as the next.
LengthMoments fixed_lengths(double prompt, double output);

// Reads them from a table with the columns prompt_tokens, output_tokens and at least one row.
// Errors: a missing column, a length below 1.
base::Result<LengthMoments> read_lengths(const std::string& path);

}  // namespace helix::plan
