// rooms: text
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

// The first byte chooses tokenizer and options, the rest is the text. Whatever it is: ids are in
// range, the bytes come back, and streaming gives what decoding at once gives.

namespace {

using namespace helix::text;

const std::vector<std::string>& pieces() {
    static const std::vector<std::string> kPieces = {"th", "the", "in", "an",
                                                     "er", "e\n", "12", "00"};
    return kPieces;
}

void add(Vocabulary& v, std::string text, TokenKind kind, float score = 0) {
    v.tokens.push_back(std::move(text));
    v.kinds.push_back(kind);
    v.scores.push_back(score);
}

std::shared_ptr<const Tokenizer> make_spm() {
    constexpr char kHex[] = "0123456789ABCDEF";
    Vocabulary v;
    v.model = "llama";
    add(v, "<unk>", TokenKind::unknown);
    add(v, "<s>", TokenKind::control);
    add(v, "</s>", TokenKind::control);
    for (unsigned byte = 0; byte < 256; ++byte) {
        add(v, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenKind::byte);
    }
    for (char c = ' ' + 1; c < 127; ++c) add(v, std::string(1, c), TokenKind::normal, -100);
    add(v, "\xe2\x96\x81", TokenKind::normal, -50);
    add(v, "\xe2\x96\x81\xe2\x96\x81", TokenKind::normal, -1);
    for (const std::string& piece : pieces()) add(v, piece, TokenKind::normal, -2);
    add(v, "<tool>", TokenKind::user_defined);
    auto made = Tokenizer::create(std::move(v));
    CHECK(made.ok());
    return *made;
}

std::shared_ptr<const Tokenizer> make_bytes(const char* pre) {
    const helix::model::ByteAlphabet alphabet;
    Vocabulary v;
    v.model = "gpt2";
    v.pre = pre;
    for (unsigned byte = 0; byte < 256; ++byte) {
        add(v, alphabet.character(static_cast<unsigned char>(byte)), TokenKind::normal);
    }
    for (const char* merge :
         {"t h", "th e", "i n", "1 2", "\xc4\xa0 \xc4\xa0", "\xc4\xa0 the", "\xc4\x8a \xc4\x8a"}) {
        v.merges.emplace_back(merge);
        std::string joined = merge;
        joined.erase(joined.find(' '), 1);
        add(v, joined, TokenKind::normal);
    }
    v.bos = v.eos = static_cast<Token>(v.tokens.size());
    add(v, "<|eot_id|>", TokenKind::control);
    add(v, "<tool>", TokenKind::user_defined);
    auto made = Tokenizer::create(std::move(v));
    CHECK(made.ok());
    return *made;
}

std::shared_ptr<const Tokenizer> make_word_pieces(bool cased) {
    const std::string mark = "\xe2\x96\x81";
    Vocabulary v;
    v.model = "bert";
    add(v, "[UNK]", TokenKind::control);
    add(v, "[CLS]", TokenKind::control);
    add(v, "[SEP]", TokenKind::control);
    for (char c = ' ' + 1; c < 127; ++c) {
        add(v, mark + c, TokenKind::normal);
        if (c != '_') add(v, std::string(1, c), TokenKind::normal);
    }
    for (const char* piece : {"the", "\xe6\x97\xa5", "\xe1\x84\x92", "\xc3\xa9"}) {
        add(v, mark + piece, TokenKind::normal);
        add(v, piece, TokenKind::normal);
    }
    add(v, mark, TokenKind::normal);
    add(v, "<tool>", TokenKind::user_defined);
    v.words.lowercase = v.words.strip_accents = v.words.clean = !cased;
    v.words.joins_punctuation = !cased;
    auto made = Tokenizer::create(std::move(v));
    CHECK(made.ok());
    return *made;
}

void check(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text,
           unsigned options) {
    const EncodeOptions encode{.add_special = (options & 1U) != 0,
                               .parse_special = (options & 2U) != 0};
    const std::vector<Token> ids = tokenizer->encode(text, encode);
    std::string bytes;
    for (const Token id : ids) {
        CHECK(tokenizer->contains(id));
        bytes += tokenizer->token_bytes(id);
    }
    if (!tokenizer->adds_space_prefix() && !encode.add_special) CHECK(bytes == text);
    const DetokenizerOptions decoding{.skip_special_tokens = (options & 4U) != 0,
                                      .starts_text = (options & 8U) != 0};
    Detokenizer detokenizer(tokenizer, decoding);
    std::string streamed;
    for (const Token id : ids) streamed += detokenizer.push(id);
    streamed += detokenizer.flush();
    CHECK(streamed == decode(*tokenizer, ids, decoding));
    for (std::string_view rest = streamed; !rest.empty();) {
        const Utf8Prefix prefix = utf8_prefix(rest);
        CHECK(prefix.kind == Utf8Prefix::Kind::character);
        rest.remove_prefix(prefix.length);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::vector<std::shared_ptr<const Tokenizer>> kTokenizers = {
        make_spm(),
        make_bytes("default"),
        make_bytes("gpt-2"),
        make_bytes("llama-bpe"),
        make_bytes("qwen2"),
        make_bytes("starcoder"),
        make_word_pieces(false),
        make_word_pieces(true)};
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    check(kTokenizers[data[0] % kTokenizers.size()], text, data[0] / 16U);
    return 0;
}
