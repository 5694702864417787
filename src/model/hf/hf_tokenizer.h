#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_config.h"

namespace helix::model {

// A Hugging Face tokenizer as our tokenizers take it: the tokenizer.ggml.* keys of a GGUF file.
// Byte-level BPE becomes "gpt2" with the pre-tokenizer whose splits it has; BPE with
// byte_fallback, which is how SentencePiece vocabularies are written, becomes "llama" with scores
// in the order of the merges; Unigram becomes "t5" and WordPiece "bert". Whether texts are
// brought into Unicode's form C first is said by a key of ours, tokenizer.ggml.normalizer.nfc;
// other normalizers of BPE that would change a text are errors.
//
// folder holds tokenizer.json and, if they are there, tokenizer_config.json (BOS, EOS, chat
// template), chat_template.jinja and generation_config.json (tokens that end a turn). Errors name
// file and key.
base::Status read_hf_tokenizer(const std::string& folder, const HfConfig& config,
                               GgufBuilder& metadata);

}  // namespace helix::model
