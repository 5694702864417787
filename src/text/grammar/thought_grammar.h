#pragma once

#include <optional>
#include <span>

#include "spec/sampling_params.h"
#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

namespace helix::text::grammar {

// The answers of a grammar, behind a thought: of any text up to its end, and a blank or two. Where
// the answer does not begin inside of the thought, there may be none.
Grammar behind_thought(Grammar answer, const spec::Thought& thought);

// What of its marks is a control token in the vocabulary of many a model.
std::vector<std::string> marks_of(const spec::Thought& thought);

// Whether the answer still thinks behind the output.
bool in_thought(const Tokenizer& tokenizer, const spec::Thought& thought,
                std::span<const Token> output);

// Whether the output has come to the thought's last token that it may have, and is still inside.
bool thinks_too_long(const Tokenizer& tokenizer, const spec::Thought& thought,
                     std::span<const Token> output);

// The token that goes on to the end of the thought from the output, which is inside of it; nothing
// if the vocabulary cannot write it.
std::optional<Token> next_to_close(const Tokenizer& tokenizer, const TokenTrie& trie,
                                   const spec::Thought& thought, std::span<const Token> output);

}  // namespace helix::text::grammar
