#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "spec/layer_range.h"

namespace helix::text {

using spec::Token;

// The numbers are GGUF's (tokenizer.ggml.token_type).
enum class TokenKind : std::uint8_t {
    undefined = 0,
    normal = 1,
    unknown = 2,
    control = 3,  // <s>, <|eot_id|>: never in text that a user wrote
    user_defined = 4,
    unused = 5,
    byte = 6,  // <0xXX>
};

inline constexpr std::string_view kGemma4Tokenizer = "gemma4";
inline constexpr std::string_view kWordPieceTokenizer = "bert";

// bert: how a text is cut into words before these become tokens, and how they are put together
// again. The defaults are those of uncased models. See word_normaliser.h.
struct WordRules {
    bool clean = true;
    bool chinese_apart = true;
    bool strip_accents = true;
    bool lowercase = true;
    std::size_t max_characters = 100;  // of a word; longer ones are unknown
    bool joins_punctuation = true;     // decoding has no space before . ? ! and ,
};

// What a model file says about its tokenizer, before anything is built from it. Tests fill it by
// hand.
struct Vocabulary {
    // "llama": SentencePiece-style BPE; "gpt2": byte-level BPE; "gemma4": of both, see SpmEncoder;
    // "t5": SentencePiece's unigrams; "bert": word pieces
    std::string model;
    std::string pre;  // pre-tokenizer of a gpt2 vocabulary; empty when the file names none
    std::vector<std::string> tokens;  // as the file writes them: "▁the", "Ġthe", "<0x0A>"
    std::vector<float> scores;        // llama: one per token, higher merges first; t5: likewise
    std::vector<TokenKind> kinds;     // one per token, or empty: all normal (<0xXX> of llama: byte)
    std::vector<std::string> merges;  // gpt2, gemma4: "left right", best first
    // Absent when the file has no such key; the Tokenizer then takes the model's convention. bert:
    // bos is [CLS] and eos [SEP].
    std::optional<Token> bos, eos, eot, eom, unknown;
    // By which a text before, a text after and what is to be written between them begin.
    std::optional<Token> infill_prefix, infill_suffix, infill_middle;
    // More that end a turn (generation_config.json), or a file where a model fills in.
    std::vector<Token> end_tokens;
    std::optional<bool> add_bos, add_eos, add_space_prefix;
    // gpt2: whether a word that is a token is that token, whatever merges make of it. Absent: what
    // the pre-tokenizer's name says.
    std::optional<bool> ignore_merges;
    std::string char_map;  // t5: what becomes of characters first (CharMap); empty: they stay
    // t5: of several spaces in a row one stays, and none at the beginning and the end.
    std::optional<bool> remove_extra_spaces;
    bool composes = false;        // texts are brought into Unicode's form C first (NFC)
    WordRules words;              // bert
    std::string chat_template;    // Jinja source, empty when the file has none
    std::string rerank_template;  // with {query} and {document}, likewise
};

// Reads and validates a vocabulary. Errors name the metadata key.
base::Result<Vocabulary> read_vocabulary(const model::GgufFile& file);

// Checks that sizes agree and ids are in range. What a kind of tokenizer needs beyond that (scores,
// merges) is checked when it is built.
base::Status validate(const Vocabulary& vocabulary);

// Whether ordinary text may become a token of this kind. Control tokens never come out of user
// text.
inline bool encodes_text(TokenKind kind) {
    return kind != TokenKind::control && kind != TokenKind::unknown && kind != TokenKind::byte;
}

using TokenIds = std::unordered_map<std::string_view, Token>;
// The tokens by their text. Of several with the same text it is the last that text may become, and
// the last of all where there is none. The vocabulary must outlive the result.
TokenIds token_ids(const Vocabulary& vocabulary);

}  // namespace helix::text
