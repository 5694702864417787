#pragma once

#include <string>

#include "base/result.h"

namespace helix::plan {

// What of the distribution of request lengths matters for throughput: means of the prompt's and the
// output's tokens and of their products. Defaults: the Azure conversation trace of 2023, prompts up
// to 2048 and outputs up to 1024 tokens.
struct LengthMoments {
    double prompt = 763.08;
    double output = 232.45;
    double prompt_prompt = 779921;
    double prompt_output = 214806;

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
