#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf_writer.h"

namespace helix::model {

// The smallest vocabulary: <unk> <s> </s>, 256 bytes, the printable ASCII characters and the space
// mark.
inline constexpr std::int32_t kMinSynthVocabulary = 3 + 256 + 95;

// GGUF's numbers (tokenizer.ggml.token_type).
namespace synth_type {
inline constexpr std::int32_t kNormal = 1;
inline constexpr std::int32_t kUnknown = 2;
inline constexpr std::int32_t kControl = 3;
inline constexpr std::int32_t kUserDefined = 4;
inline constexpr std::int32_t kByte = 6;
}  // namespace synth_type

// A token that is not grown.
struct SynthToken {
    std::string_view text;
    std::int32_t type = synth_type::kControl;
};

// A SentencePiece-style vocabulary, as tokenizer.ggml.* holds it. Every piece of more than one
// character is two earlier pieces joined, and earlier pieces have higher scores, so that merging
// can reach all of them.
struct SynthVocabulary {
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<std::int32_t> types;  // 1 normal, 2 unknown, 3 control, 6 byte
    std::uint32_t unknown = 0;
    std::uint32_t bos = 1;
    std::uint32_t eos = 2;
};

// size is at least kMinSynthVocabulary.
SynthVocabulary make_synth_vocabulary(std::int32_t size, std::uint64_t seed);

// The bytes and the space mark with the printable ASCII characters, which are there in any case.
inline constexpr std::int32_t kSynthBytes = 256;
inline constexpr std::int32_t kSynthCharacters = 95;

// The same with other tokens at its beginning than <unk> <s> </s>, which are not what unknown, bos
// and eos say then. size is at least that of these, the bytes and the characters.
SynthVocabulary make_synth_vocabulary(std::int32_t size, std::uint64_t seed,
                                      const std::vector<SynthToken>& first);

// A vocabulary that grows by merges. Each token is what the merges before its own make of its text,
// two tokens, joined: so merging reaches every one of them.
struct SynthMerges {
    std::vector<std::string> tokens;  // the characters first
    std::vector<std::string> merges;  // "left right", best first: of each further token one
};

// In the alphabet of byte-level vocabularies, all of whose characters are tokens. size is at least
// kSynthBytes.
SynthMerges make_synth_byte_merges(std::int32_t size, std::uint64_t seed);
// Of the space mark and the printable ASCII characters. size is at least kSynthCharacters.
SynthMerges make_synth_character_merges(std::int32_t size, std::uint64_t seed);

// The smallest of word pieces: [PAD] [UNK] [CLS] [SEP] [MASK], the printable ASCII characters
// without capitals as beginnings of words, and the letters and digits within words.
inline constexpr std::int32_t kMinSynthWordPieces = 5 + 68 + 36;

// A vocabulary of word pieces as BERT's uncased models have one, written as llama.cpp's converter
// does: "▁the" begins a word, "s" goes on. Every word of ASCII can be cut into its tokens.
struct SynthWordPieces {
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;  // 1 normal, 3 control
    std::uint32_t padding = 0;
    std::uint32_t unknown = 1;
    std::uint32_t cls = 2;
    std::uint32_t sep = 3;
    std::uint32_t mask = 4;
};

// size is at least kMinSynthWordPieces.
SynthWordPieces make_synth_word_pieces(std::int32_t size, std::uint64_t seed);

// Sets the tokenizer.ggml.* keys.
void set_synth_word_pieces(SynthWordPieces pieces, GgufBuilder& metadata);

}  // namespace helix::model
