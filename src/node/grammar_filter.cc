#include "node/grammar_filter.h"

#include "base/random.h"
#include "text/vocabulary.h"

namespace helix::node {
namespace {

std::uint64_t text_id_of(const core::SequenceKey& key) {
    return base::hash_pair(base::hash_pair(key.request.value, key.attempt), key.member);
}

}  // namespace

base::Result<text::grammar::GrammarMasks*> GrammarFilter::masks() {
    const std::lock_guard lock(mutex_);
    if (masks_ == nullptr) {
        TRY(auto vocabulary, text::read_vocabulary(weights_->file()));
        TRY(auto tokenizer, text::Tokenizer::create(std::move(vocabulary)));
        masks_ = std::make_unique<text::grammar::GrammarMasks>(std::move(tokenizer));
    }
    return masks_.get();
}

base::Result<engine::AllowedTokens> GrammarFilter::allowed(const core::SequenceKey& key,
                                                           const spec::OutputGrammar& grammar,
                                                           std::span<const spec::Token> output) {
    TRY(text::grammar::GrammarMasks* const all, masks());
    TRY(auto mask, all->allowed(grammar, text_id_of(key), output));
    if (mask == nullptr) return engine::AllowedTokens();
    // Shares ownership of the mask.
    return engine::AllowedTokens(mask, &mask->words());
}

base::Result<std::optional<spec::Token>> GrammarFilter::instead_of(
    spec::Token drawn, const core::SequenceKey& key, const spec::OutputGrammar& grammar,
    std::span<const spec::Token> output) {
    TRY(text::grammar::GrammarMasks* const all, masks());
    return all->instead_of(drawn, grammar, text_id_of(key), output);
}

}  // namespace helix::node
