#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "engine/backend/token_filter.h"
#include "model/weight_source.h"
#include "text/grammar/output_grammar.h"

namespace helix::node {

// Grammars over the vocabulary of the served model's file, whose metadata every worker has. The
// tokenizer is built when the first grammar comes.
class GrammarFilter final : public engine::TokenFilter {
  public:
    explicit GrammarFilter(std::shared_ptr<model::WeightSource> weights)
        : weights_(std::move(weights)) {}

    base::Result<engine::AllowedTokens> allowed(const core::SequenceKey& key,
                                                const spec::OutputGrammar& grammar,
                                                std::span<const spec::Token> output) override;
    base::Result<std::optional<spec::Token>> instead_of(
        spec::Token drawn, const core::SequenceKey& key, const spec::OutputGrammar& grammar,
        std::span<const spec::Token> output) override;

  private:
    base::Result<text::grammar::GrammarMasks*> masks();

    std::shared_ptr<model::WeightSource> weights_;
    std::mutex mutex_;
    std::unique_ptr<text::grammar::GrammarMasks> masks_;  // set once, under mutex_
};

}  // namespace helix::node
