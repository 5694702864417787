#include "text/spm_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "text/spaces.h"
#include "text/utf8.h"
#include "text/word_memory.h"

namespace helix::text {
namespace {

std::string escape_spaces(std::string_view text, bool prefix) {
    std::string out;
    out.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
    if (prefix) out += kSpaceMark;
    for (const char c : text) {
        if (c == ' ') {
            out += kSpaceMark;
        } else {
            out.push_back(c);
        }
    }
    return out;
}

// The byte that a token "<0x0A>" stands for.
std::optional<unsigned char> byte_of(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
    unsigned value = 0;
    for (const char c : text.substr(3, 2)) {
        if (c >= '0' && c <= '9') {
            value = value * 16 + static_cast<unsigned>(c - '0');
        } else if (c >= 'A' && c <= 'F') {
            value = value * 16 + static_cast<unsigned>(c - 'A' + 10);
        } else {
            return std::nullopt;
        }
    }
    return static_cast<unsigned char>(value);
}

}  // namespace

base::Result<std::unique_ptr<const TextEncoder>> SpmEncoder::create(const Vocabulary& vocabulary) {
    std::unique_ptr<SpmEncoder> encoder(new SpmEncoder(vocabulary));
    TRY_VOID(encoder->build());
    return std::unique_ptr<const TextEncoder>(std::move(encoder));
}

base::Status SpmEncoder::build() {
    const std::size_t n = vocabulary_.tokens.size();
    if (!by_merges_ && vocabulary_.scores.size() != n) {
        return base::invalid(
            "tokenizer.ggml.scores: missing, a \"llama\" tokenizer needs one per token");
    }
    byte_tokens_.fill(-1);
    token_of_.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::string& token = vocabulary_.tokens[i];
        if (!by_merges_ && std::isnan(vocabulary_.scores[i])) {
            return base::invalid(fmt::format("tokenizer.ggml.scores: token {} has score NaN", i));
        }
        if (vocabulary_.kinds[i] == TokenKind::byte) {
            const auto byte = byte_of(token);
            if (!byte) {
                return base::invalid(fmt::format(
                    "tokenizer.ggml.tokens: token {} is of type byte, but \"{}\" is not <0xXX>", i,
                    token));
            }
            byte_tokens_[*byte] = static_cast<Token>(i);
        } else if (encodes_text(vocabulary_.kinds[i]) && !token.empty()) {
            token_of_[token] = static_cast<Token>(i);
            longest_token_ = std::max(longest_token_, token.size());
            words_are_apart_ = words_are_apart_ && spaced_word_length(token) == token.size();
        }
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
        if (byte_tokens_[byte] >= 0) continue;
        if (!vocabulary_.unknown) {
            return base::invalid(fmt::format(
                "tokenizer.ggml.tokens: no token <0x{:02X}> and no tokenizer.ggml.unknown_token_id",
                byte));
        }
        byte_tokens_[byte] = *vocabulary_.unknown;
    }
    if (!by_merges_) return base::Ok{};
    return merges_.read(vocabulary_, token_ids(vocabulary_));
}

std::optional<Merge> SpmEncoder::find(std::string_view text, const Symbol& left,
                                      const Symbol& right) const {
    if (by_merges_) return merges_.find(left.token, right.token);
    const std::size_t length = std::size_t{left.length} + right.length;
    if (length > longest_token_) return std::nullopt;
    const auto found = token_of_.find(text.substr(left.begin, length));
    if (found == token_of_.end()) return std::nullopt;
    return Merge{-static_cast<double>(vocabulary_.scores[static_cast<std::size_t>(found->second)]),
                 found->second};
}

std::size_t SpmEncoder::next_word(std::string_view text) const {
    if (by_merges_) {
        const bool line_ends = text.starts_with('\n');
        const std::size_t end = line_ends ? text.find_first_not_of('\n') : text.find_first_of('\n');
        text = text.substr(0, end);
        if (line_ends) return text.size();
    }
    return words_are_apart_ ? spaced_word_length(text) : text.size();
}

void SpmEncoder::encode(std::string_view raw, bool at_start, std::vector<Token>& out) const {
    const std::string text = escape_spaces(raw, at_start && *vocabulary_.add_space_prefix);
    CHECK(text.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()));
    WordMemory memory(out);
    std::vector<Symbol> symbols;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view word = rest.substr(0, next_word(rest));
        rest.remove_prefix(word.size());
        memory.append(word, [&] { encode_word(word, symbols, out); });
    }
}

void SpmEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                             std::vector<Token>& out) const {
    if (by_merges_ && word.starts_with('\n')) {
        const auto whole = token_of_.find(word);
        if (whole != token_of_.end()) return out.push_back(whole->second);
    }
    symbols.clear();
    for (std::string_view rest = word; !rest.empty();) {
        const std::size_t length = utf8_prefix(rest).length;
        const auto found = token_of_.find(rest.substr(0, length));
        append_symbol(symbols, static_cast<std::uint32_t>(length),
                      found == token_of_.end() ? -1 : found->second);
        rest.remove_prefix(length);
    }
    merge_symbols(word, *this, symbols);
    for (std::int32_t i = 0; i >= 0;) {
        const Symbol& symbol = symbols[static_cast<std::size_t>(i)];
        if (symbol.token >= 0) {
            out.push_back(symbol.token);
        } else {
            for (const char byte : word.substr(symbol.begin, symbol.length)) {
                out.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
            }
        }
        i = symbol.next;
    }
}

std::string SpmEncoder::decode_token(Token token) const {
    const auto index = static_cast<std::size_t>(token);
    const std::string_view text = vocabulary_.tokens[index];
    if (vocabulary_.kinds[index] == TokenKind::byte) {
        return std::string(1, static_cast<char>(*byte_of(text)));
    }
    return without_space_marks(text);
}

}  // namespace helix::text
