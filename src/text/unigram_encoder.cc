#include "text/unigram_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/spaces.h"
#include "text/utf8.h"
#include "text/word_memory.h"

namespace helix::text {
namespace {

constexpr double kUnknownCosts = 10;  // below the worst token

}  // namespace

base::Result<std::unique_ptr<const TextEncoder>> UnigramEncoder::create(
    const Vocabulary& vocabulary) {
    std::unique_ptr<UnigramEncoder> encoder(new UnigramEncoder(vocabulary));
    TRY_VOID(encoder->build());
    return std::unique_ptr<const TextEncoder>(std::move(encoder));
}

base::Status UnigramEncoder::build() {
    if (vocabulary_.scores.size() != vocabulary_.tokens.size()) {
        return base::invalid(
            "tokenizer.ggml.scores: missing, a \"t5\" tokenizer needs one per token");
    }
    if (!vocabulary_.unknown) {
        return base::invalid(
            "tokenizer.ggml.unknown_token_id: missing, a \"t5\" tokenizer needs it");
    }
    if (!vocabulary_.char_map.empty()) {
        auto map = CharMap::parse(vocabulary_.char_map);
        if (!map.ok()) {
            return base::invalid("tokenizer.ggml.precompiled_charsmap: " + map.error().message);
        }
        map_ = std::move(*map);
    }
    double worst = std::numeric_limits<double>::infinity();
    for (const auto& [text, token] : token_ids(vocabulary_)) {
        const TokenKind kind = vocabulary_.kinds[static_cast<std::size_t>(token)];
        const double score = vocabulary_.scores[static_cast<std::size_t>(token)];
        if (!std::isfinite(score)) {
            return base::invalid(fmt::format(
                "tokenizer.ggml.scores: token {} has score {}, expected a number", token, score));
        }
        if (kind != TokenKind::normal || text.empty()) continue;
        pieces_.push_back({text, token, score});
        worst = std::min(worst, score);
        words_are_apart_ = words_are_apart_ && spaced_word_length(text) == text.size();
    }
    if (pieces_.empty())
        return base::invalid("tokenizer.ggml.tokens: none is of the kind that text becomes");
    unknown_score_ = worst - kUnknownCosts;
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.text < b.text; });
    for (std::size_t byte = 0; byte < 257; ++byte) {
        const auto first =
            std::partition_point(pieces_.begin(), pieces_.end(), [byte](const Piece& piece) {
                return static_cast<unsigned char>(piece.text.front()) < byte;
            });
        first_[byte] = static_cast<std::size_t>(first - pieces_.begin());
    }
    return base::Ok{};
}

std::string UnigramEncoder::normalised(std::string_view raw, bool at_start) const {
    const bool all_spaces = !*vocabulary_.remove_extra_spaces;
    std::string out;
    bool space_due = at_start && *vocabulary_.add_space_prefix;
    const auto put = [&](std::string_view text) {
        for (const char c : text) {
            if (c == ' ' && !all_spaces) {
                space_due = space_due || !out.empty();
                continue;
            }
            if (space_due) out += kSpaceMark;
            space_due = false;
            if (c == ' ') {
                out += kSpaceMark;
            } else {
                out.push_back(c);
            }
        }
    };
    while (!raw.empty()) {
        const CharMap::Entry entry = map_.longest(raw);
        if (entry.length > 0) {
            put(entry.text);
            raw.remove_prefix(entry.length);
            continue;
        }
        const Utf8Prefix prefix = utf8_prefix(raw);
        put(prefix.kind == Utf8Prefix::Kind::character ? raw.substr(0, prefix.length)
                                                       : kReplacement);
        raw.remove_prefix(prefix.length);
    }
    return out;
}

void UnigramEncoder::encode(std::string_view raw, bool at_start, std::vector<Token>& out) const {
    const std::string text = normalised(raw, at_start);
    WordMemory memory(out);
    std::vector<Way> ways;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view word =
            rest.substr(0, words_are_apart_ ? spaced_word_length(rest) : rest.size());
        rest.remove_prefix(word.size());
        memory.append(word, [&] { encode_word(word, ways, out); });
    }
}

void UnigramEncoder::encode_word(std::string_view word, std::vector<Way>& ways,
                                 std::vector<Token>& out) const {
    ways.assign(word.size() + 1, {-std::numeric_limits<double>::infinity(), 0, 0});
    ways[0].score = 0;
    for (std::size_t begin = 0; begin < word.size();) {
        extend(word, begin, ways);
        begin += utf8_prefix(word.substr(begin)).length;
    }
    const std::size_t before = out.size();
    for (std::size_t at = word.size(); at > 0; at = ways[at].from) {
        const bool again = out.size() > before && out.back() == *vocabulary_.unknown;
        if (!again || ways[at].token != *vocabulary_.unknown) out.push_back(ways[at].token);
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
}

// By each token that the word has there.
void UnigramEncoder::extend(std::string_view word, std::size_t begin,
                            std::vector<Way>& ways) const {
    const std::size_t character = utf8_prefix(word.substr(begin)).length;
    const double score = ways[begin].score;
    const auto offer = [&](std::size_t length, double more, Token token) {
        Way& way = ways[begin + length];
        if (score + more > way.score) way = {score + more, begin, token};
    };
    bool known = false;
    std::span<const Piece> some(pieces_);
    for (std::size_t length = 1; begin + length <= word.size(); ++length) {
        const auto byte = static_cast<unsigned char>(word[begin + length - 1]);
        if (length == 1) {
            some = some.subspan(first_[byte], first_[byte + 1U] - first_[byte]);
        } else {
            const auto at = [&](const Piece& piece) {
                return static_cast<unsigned char>(piece.text[length - 1]);
            };
            const auto first = std::partition_point(some.begin(), some.end(),
                                                    [&](const Piece& p) { return at(p) < byte; });
            const auto last = std::partition_point(first, some.end(),
                                                   [&](const Piece& p) { return at(p) == byte; });
            some = {first, last};
        }
        if (some.empty()) break;
        // They begin alike, so the shortest of them is the first.
        if (some.front().text.size() > length) continue;
        offer(length, some.front().score, some.front().token);
        known = known || length == character;
        some = some.subspan(1);
        if (some.empty()) break;
    }
    if (!known) offer(character, unknown_score_, *vocabulary_.unknown);
}

std::string UnigramEncoder::decode_token(Token token) const {
    return without_space_marks(vocabulary_.tokens[static_cast<std::size_t>(token)]);
}

}  // namespace helix::text
