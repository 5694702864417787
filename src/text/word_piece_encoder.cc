#include "text/word_piece_encoder.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "text/spaces.h"
#include "text/utf8.h"
#include "text/word_normaliser.h"

namespace helix::text {
namespace {

bool begins_word(std::string_view token) {
    return token.size() > kSpaceMark.size() && token.starts_with(kSpaceMark);
}

}  // namespace

base::Result<std::unique_ptr<const TextEncoder>> WordPieceEncoder::create(
    const Vocabulary& vocabulary) {
    std::unique_ptr<WordPieceEncoder> encoder(new WordPieceEncoder(vocabulary));
    TRY_VOID(encoder->build());
    return std::unique_ptr<const TextEncoder>(std::move(encoder));
}

base::Status WordPieceEncoder::build() {
    CHECK(vocabulary_.unknown.has_value());
    for (const auto& [text, token] : token_ids(vocabulary_)) {
        if (vocabulary_.kinds[static_cast<std::size_t>(token)] != TokenKind::normal) continue;
        if (begins_word(text)) {
            beginnings_.push_back({text.substr(kSpaceMark.size()), token});
        } else if (!text.empty()) {
            rests_.push_back({text, token});
        }
    }
    if (beginnings_.empty())
        return base::invalid("tokenizer.ggml.tokens: none begins a word, with \"▁\" before it");
    for (std::vector<Piece>* pieces : {&beginnings_, &rests_}) {
        std::sort(pieces->begin(), pieces->end(),
                  [](const Piece& a, const Piece& b) { return a.text < b.text; });
    }
    return base::Ok{};
}

void WordPieceEncoder::encode(std::string_view text, bool /*at_start*/,
                              std::vector<Token>& out) const {
    std::string word;
    std::size_t n_characters = 0;
    const auto finish_word = [&] {
        if (n_characters > 0) encode_word(word, n_characters, out);
        word.clear();
        n_characters = 0;
    };
    for (const char32_t c : normalise_words(text, vocabulary_.words)) {
        const bool alone = is_punctuation_word(c);
        const bool between = is_between_words(c);
        if (alone || between) finish_word();
        if (between) continue;
        append_utf8(word, c);
        ++n_characters;
        if (alone) finish_word();
    }
    finish_word();
}

void WordPieceEncoder::encode_word(std::string_view word, std::size_t n_characters,
                                   std::vector<Token>& out) const {
    const std::size_t before = out.size();
    bool known = n_characters <= vocabulary_.words.max_characters;
    for (std::size_t at = 0; known && at < word.size();) {
        const Match match = longest(at == 0 ? beginnings_ : rests_, word.substr(at));
        known = match.length > 0;
        at += match.length;
        out.push_back(match.token);
    }
    if (known) return;
    out.resize(before);
    out.push_back(*vocabulary_.unknown);
}

WordPieceEncoder::Match WordPieceEncoder::longest(const std::vector<Piece>& pieces,
                                                  std::string_view text) {
    Match best;
    // Those that agree with the text so far and are longer than that.
    std::span<const Piece> some(pieces);
    for (std::size_t length = 1; length <= text.size() && !some.empty(); ++length) {
        const auto byte = static_cast<unsigned char>(text[length - 1]);
        const auto at = [length](const Piece& piece) {
            return static_cast<unsigned char>(piece.text[length - 1]);
        };
        const auto first = std::partition_point(some.begin(), some.end(),
                                                [&](const Piece& p) { return at(p) < byte; });
        const auto last =
            std::partition_point(first, some.end(), [&](const Piece& p) { return at(p) == byte; });
        some = {first, last};
        // They begin alike, so the shortest of them is the first.
        if (some.empty() || some.front().text.size() > length) continue;
        best = {length, some.front().token};
        some = some.subspan(1);
    }
    return best;
}

std::string WordPieceEncoder::decode_token(Token token) const {
    const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(token)];
    if (!begins_word(text)) return std::string(text);
    const std::string_view word = text.substr(kSpaceMark.size());
    const bool joined = vocabulary_.words.joins_punctuation &&
                        std::string_view(".?!,").find(word.front()) != std::string_view::npos;
    return (joined ? "" : " ") + std::string(word);
}

}  // namespace helix::text
