#include "sim/faults/toy_drafts.h"

#include "base/check.h"
#include "base/random.h"
#include "sim/faults/toy_model.h"

namespace helix::sim {

ToyDrafts::ToyDrafts(std::int32_t n_layers, std::int32_t vocab, double right,
                     const spec::AttentionWindow& window)
    : n_layers_(n_layers), vocab_(vocab), right_(right), window_(window) {}

void ToyDrafts::begin(const core::Request& request) {
    texts_[request.id] = {request.sampling.seed, {}};
}

std::optional<core::Drafted> ToyDrafts::answer(const core::ProposeDrafts& question) {
    Text& text = texts_.at(question.id);
    CHECK(question.first == static_cast<std::int32_t>(text.tokens.size()));
    text.tokens.insert(text.tokens.end(), question.tokens.begin(), question.tokens.end());
    if (question.count == 0) return std::nullopt;
    const auto position = static_cast<std::int32_t>(text.tokens.size());
    core::Drafted drafted{question.id, position, {}};
    drafted.tokens =
        toy_generate(text.tokens, question.count, n_layers_, text.seed, vocab_, window_);
    base::Random random(base::hash_pair(text.seed, static_cast<std::uint64_t>(position)));
    for (core::Token& token : drafted.tokens) {
        if (!random.chance(right_)) token = (token + 1) % vocab_;
    }
    // Sometimes it has nothing to say.
    if (random.chance(0.05)) drafted.tokens.clear();
    return drafted;
}

}  // namespace helix::sim
