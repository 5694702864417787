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
    // Of each, the last dimension contiguous; a first one of three counts matrices.
    std::vector<std::int64_t> source_shape;
    // The number of heads whose rows are interleaved, so that the rows i and i + head_dim / 2 of a
    // head, which rope turns together, lie side by side. 0 leaves the rows as they are.
    std::int32_t interleave_heads = 0;
    // Where only some rows of every matrix of the source are ours: the first, and how far apart.
    std::int64_t first_row = 0;
    std::int64_t row_step = 1;
    bool of_elements = false;  // these rows are single elements, of vectors side by side
    // Not empty: this tensor has the scales of the source's blocks of MXFP4, 16 bytes each with two
    // elements beside each other in a byte. Then source_shape is [matrices, rows, blocks, 16].
    std::string scales = {};
    // Every matrix of the source has our rows as its columns; first_row counts these.
    bool transposed = false;
    bool keep_float = false;  // f32 whatever the file has: vectors and routers
    bool add_one = false;     // to every element, which keep_float makes f32
};

// What HfTensor::sources call a tensor of the safetensors in a dense layer's folder.
std::string dense_source(const std::string& folder, const std::string& tensor);

// All tensors of the model but rope factors, in the order of a GGUF file.
std::vector<HfTensor> hf_tensors(const HfConfig& config);
// Whether a tensor is one that some files have and everybody computes: "….rotary_emb.inv_freq", and
// a head that is the embedding; one of the layers behind the last, which nobody loads; or keys and
// values of a layer that attends to another's.
bool is_spare_hf_tensor(const HfConfig& config, std::string_view name);

}  // namespace helix::model
