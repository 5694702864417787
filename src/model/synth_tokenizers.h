#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/gguf_writer.h"

// The tokenizers of the small models of families: of the family's kind, with its special tokens and
// settings as published files have them, around words that are made up.

namespace helix::model {

struct SynthTokenizer {
    std::string_view name;      // SynthShape::tokenizer
    std::string_view model;     // tokenizer.ggml.model: "gpt2", "llama" or "gemma4"
    std::string_view pre = {};  // tokenizer.ggml.pre; empty: files say nothing
    // Special tokens before and behind all others; and behind these such as may come of text
    // (user-defined).
    std::vector<std::string_view> first = {};
    std::vector<std::string_view> last = {};
    std::vector<std::string_view> spoken = {};
    // Those of them that have these roles; empty: none has.
    std::string_view bos = {};
    std::string_view eos = {};
    std::string_view eot = {};
    std::string_view eom = {};
    std::string_view unknown = {};
    std::string_view padding = {};
    std::string_view mask = {};
    bool cls_and_sep = false;  // bos is also the one of a classifier, and eos that between texts
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix = false;  // llama, gemma4
    // Our own, short ones in the family's form; empty: what the family is for needs none.
    std::string_view chat_template = {};
    std::string_view rerank_template = {};  // of a shape that ranks
};

const std::vector<SynthTokenizer>& synth_tokenizers();
// nullptr: there is none of this name.
const SynthTokenizer* find_synth_tokenizer(std::string_view name);

// The smallest vocabulary that it may have: without a token that is grown.
std::int32_t min_synth_vocabulary(const SynthTokenizer& tokenizer);

// Sets the tokenizer.* keys. vocab is at least min_synth_vocabulary().
void set_synth_tokenizer(const SynthTokenizer& tokenizer, std::int32_t vocab, std::uint64_t seed,
                         GgufBuilder& metadata);

}  // namespace helix::model
