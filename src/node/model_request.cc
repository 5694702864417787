#include "node/model_request.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace helix::node {
namespace {

using base::Ok;
using base::Status;

Status check_tokens(const char* what, const std::vector<core::Token>& tokens,
                    std::int32_t vocab_size) {
    const auto outside = [&](core::Token token) { return token < 0 || token >= vocab_size; };
    const auto found = std::find_if(tokens.begin(), tokens.end(), outside);
    if (found == tokens.end()) return Ok{};
    return base::invalid(fmt::format("{}: the model has {} tokens, and {} is none of them", what,
                                     vocab_size, *found));
}

}  // namespace

Status check_for_model(const core::Request& request, const std::optional<core::Begun>& begun,
                       std::int32_t vocab_size, std::int32_t context_length) {
    TRY_VOID(check_tokens("prompt", request.prompt, vocab_size));
    TRY_VOID(check_tokens("prediction", request.prediction, vocab_size));
    if (!begun.has_value()) return Ok{};
    if (request.prompt.empty()) return base::invalid("it was begun, and has no prompt");
    for (const core::Begun::Choice& choice : begun->choices) {
        TRY_VOID(check_tokens("answer", choice.output, vocab_size));
        const std::size_t tokens = request.prompt.size() + choice.output.size();
        if (tokens > static_cast<std::size_t>(context_length)) {
            return base::invalid(fmt::format(
                "prompt and answer have {} tokens, and the context that is served now has {}",
                tokens, context_length));
        }
    }
    return Ok{};
}

}  // namespace helix::node
