#include "text/detokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace helix::text {
namespace {

// Moves what is decided from the front of bytes to the returned text; the start of a character
// stays.
std::string take_text(std::string& bytes) {
    std::string out;
    std::string_view rest = bytes;
    while (!rest.empty()) {
        const Utf8Prefix prefix = utf8_prefix(rest);
        if (prefix.kind == Utf8Prefix::Kind::incomplete) break;
        out += prefix.kind == Utf8Prefix::Kind::character ? rest.substr(0, prefix.length)
                                                          : kReplacement;
        rest.remove_prefix(prefix.length);
    }
    bytes.erase(0, bytes.size() - rest.size());
    return out;
}

// strip_space says whether the next printed token loses a leading space. It is cleared once a token
// is printed, so no later one does.
void append_bytes(const Tokenizer& tokenizer, Token token, const DetokenizerOptions& options,
                  bool& strip_space, std::string& out) {
    if (options.skip_special_tokens && tokenizer.is_special(token)) {
        const auto* shown = options.shown.get();
        if (shown == nullptr || !std::binary_search(shown->begin(), shown->end(), token)) return;
    }
    std::string_view bytes = tokenizer.token_bytes(token);
    if (strip_space && bytes.starts_with(' ')) bytes.remove_prefix(1);
    strip_space = false;
    out += bytes;
}

}  // namespace

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, DetokenizerOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
    CHECK(tokenizer_ != nullptr);
    strip_space_ = options_.starts_text && tokenizer_->adds_space_prefix();
}

std::string Detokenizer::push(Token token) {
    append_bytes(*tokenizer_, token, options_, strip_space_, waiting_);
    return take_text(waiting_);
}

std::string Detokenizer::flush() {
    const bool unfinished = !waiting_.empty();
    waiting_.clear();
    strip_space_ = false;
    return std::string(unfinished ? kReplacement : std::string_view());
}

std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens,
                   DetokenizerOptions options) {
    bool strip_space = options.starts_text && tokenizer.adds_space_prefix();
    std::string bytes;
    for (const Token token : tokens) {
        append_bytes(tokenizer, token, options, strip_space, bytes);
    }
    std::string text = take_text(bytes);
    if (!bytes.empty()) text += kReplacement;
    return text;
}

}  // namespace helix::text
