#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace helix::model {

// The smallest vocabulary: <unk> <s> </s>, 256 bytes, the printable ASCII characters and the space
// mark.
inline constexpr std::int32_t kMinSynthVocabulary = 3 + 256 + 95;

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

}  // namespace helix::model
