#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/hf/hf_config.h"

namespace helix::model {

// One tensor of ours, and the tensors of a Hugging Face model that it is made of.
struct HfTensor {
    std::string name;                 // ours: "blk.0.attn_q.weight"
    std::vector<std::int64_t> shape;  // ours, ggml order
    // The source tensors, put one behind the other: one, or one per expert.
    std::vector<std::string> sources;
    std::vector<std::int64_t> source_shape;  // of each, the last dimension contiguous
    // The number of heads whose rows are interleaved, so that the rows i and i + head_dim / 2 of a
    // head, which rope turns together, lie side by side. 0 leaves the rows as they are.
    std::int32_t interleave_heads = 0;
    bool keep_float = false;  // f32 whatever the file has: vectors and routers
    bool add_one = false;     // to every element, which keep_float makes f32
};

// All tensors of the model but rope factors, in the order of a GGUF file.
std::vector<HfTensor> hf_tensors(const HfConfig& config);
// Whether a tensor is one that some files have and everybody computes: "….rotary_emb.inv_freq", and
// a head that is the embedding.
bool is_spare_hf_tensor(const HfConfig& config, std::string_view name);

}  // namespace helix::model
