#include "text/infill_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace helix::text {
namespace {

// Qwen, StarCoder 1 and 2 (Granite), DeepSeek, CodeLlama (with and without SentencePiece's mark of
// a space), GLM.
using MarkNames = std::array<std::string_view, 7>;
constexpr MarkNames kPrefixNames = {"<|fim_prefix|>",  "<fim-prefix>", "<fim_prefix>",
                                    "<｜fim▁begin｜>", "<PRE>",        "▁<PRE>",
                                    "<|code_prefix|>"};
constexpr MarkNames kSuffixNames = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
                                    "<｜fim▁hole｜>", "<SUF>",        "▁<SUF>",
                                    "<|code_suffix|>"};
constexpr MarkNames kMiddleNames = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
                                    "<｜fim▁end｜>",  "<MID>",        "▁<MID>",
                                    "<|code_middle|>"};

std::optional<Token> find_token(const Vocabulary& vocabulary, std::optional<Token> named,
                                const MarkNames& names) {
    if (named) return named;
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        if (std::find(names.begin(), names.end(), vocabulary.tokens[i]) != names.end()) {
            return static_cast<Token>(i);
        }
    }
    return {};
}

}  // namespace

std::optional<InfillTokens> find_infill_tokens(const Vocabulary& vocabulary) {
    const auto prefix = find_token(vocabulary, vocabulary.infill_prefix, kPrefixNames);
    const auto suffix = find_token(vocabulary, vocabulary.infill_suffix, kSuffixNames);
    const auto middle = find_token(vocabulary, vocabulary.infill_middle, kMiddleNames);
    if (!prefix || !suffix || !middle) return {};
    return InfillTokens{*prefix, *suffix, *middle};
}

}  // namespace helix::text
