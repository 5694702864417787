#include "text/byte_bpe_encoder.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "text/word_memory.h"

namespace helix::text {
namespace {

// Whether a byte can be in UTF-8 text: C0, C1 and F5 to FF cannot.
bool occurs_in_utf8(std::size_t byte) {
    return byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
}

}  // namespace

base::Result<std::unique_ptr<const TextEncoder>> ByteBpeEncoder::create(
    const Vocabulary& vocabulary, PreTokenizer pre_tokenizer) {
    std::unique_ptr<ByteBpeEncoder> encoder(
        new ByteBpeEncoder(vocabulary, std::move(pre_tokenizer)));
    TRY_VOID(encoder->build());
    return std::unique_ptr<const TextEncoder>(std::move(encoder));
}

base::Status ByteBpeEncoder::build() {
    const TokenIds ids = token_ids(vocabulary_);
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
        if (!whole_words_first_ || !encodes_text(vocabulary_.kinds[i])) continue;
        if (auto bytes = alphabet_.bytes(vocabulary_.tokens[i])) {
            whole_words_[std::move(*bytes)] = static_cast<Token>(i);
        }
    }
    std::size_t missing = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        const auto found = ids.find(alphabet_.character(static_cast<unsigned char>(byte)));
        byte_tokens_[byte] = found == ids.end() ? vocabulary_.unknown.value_or(-1) : found->second;
        if (found == ids.end() && occurs_in_utf8(byte)) ++missing;
    }
    if (missing > 0) {
        LOG_WARN("tokenizer.ggml.tokens: {} bytes have no token; text with them is encoded {}",
                 missing, vocabulary_.unknown ? "as the unknown token" : "without them");
    }
    return merges_.read(vocabulary_, ids);
}

std::optional<Merge> ByteBpeEncoder::find(std::string_view /*text*/, const Symbol& left,
                                          const Symbol& right) const {
    return merges_.find(left.token, right.token);
}

void ByteBpeEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                                 std::vector<Token>& out) const {
    if (whole_words_first_) {
        const auto whole = whole_words_.find(std::string(word));
        if (whole != whole_words_.end()) {
            out.push_back(whole->second);
            return;
        }
    }
    symbols.clear();
    for (const char byte : word) {
        append_symbol(symbols, 1, byte_tokens_[static_cast<unsigned char>(byte)]);
    }
    merge_symbols(word, *this, symbols);
    for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
        const Token token = symbols[static_cast<std::size_t>(i)].token;
        if (token >= 0) out.push_back(token);
    }
}

void ByteBpeEncoder::encode(std::string_view text, bool /*at_start*/,
                            std::vector<Token>& out) const {
    CHECK(text.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()));
    WordMemory memory(out);
    std::vector<Symbol> symbols;
    for (const std::string_view word : pre_tokenizer_.split(text)) {
        memory.append(word, [&] { encode_word(word, symbols, out); });
    }
}

std::string ByteBpeEncoder::decode_token(Token token) const {
    const std::string& text = vocabulary_.tokens[static_cast<std::size_t>(token)];
    // Tokens that were added to a vocabulary later are sometimes written as they are.
    return alphabet_.bytes(text).value_or(text);
}

}  // namespace helix::text
