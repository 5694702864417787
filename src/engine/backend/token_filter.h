#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/protocol/types.h"
#include "spec/sampling_params.h"

namespace helix::engine {

// One bit a token, lowest first, [ceil(vocab / 64)].
using AllowedTokens = std::shared_ptr<const std::vector<std::uint64_t>>;

// Says which tokens may follow where sampling asks for a grammar. The engine has no tokenizer; who
// has one gives it this. Any thread.
class TokenFilter {
  public:
    virtual ~TokenFilter() = default;
    // output: what was generated so far; the answer depends on grammar and output only. At least
    // one token is allowed; null: each is. invalid: says why none is, or what is wrong with the
    // grammar.
    virtual base::Result<AllowedTokens> allowed(const core::SequenceKey& key,
                                                const spec::OutputGrammar& grammar,
                                                std::span<const spec::Token> output) = 0;
    // For a grammar that replaces_tokens(): the token that is written in place of drawn, which is
    // allowed, because too few would be left behind it to end the text, or a thought has to end;
    // nothing if drawn may stay. invalid: the text could never end in time.
    virtual base::Result<std::optional<spec::Token>> instead_of(
        spec::Token drawn, const core::SequenceKey& key, const spec::OutputGrammar& grammar,
        std::span<const spec::Token> output) = 0;
};

}  // namespace helix::engine
