#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/tensor_type.h"

// Which tensors of a model are quantised, and to what.

namespace helix::model {

// What the tensors get whose names fit the pattern, in which * stands for any characters.
struct TensorRule {
    std::string pattern;
    std::string type;
};

struct QuantiseOptions {
    std::string type;               // of matrices: a tensor type or a mix (quantise_types())
    std::string output_type;        // of the head; "": as type says
    std::string embedding_type;     // of the embedding; "": as type says
    std::vector<TensorRule> rules;  // go before all this, the last that fits first
    bool allow_requantise = false;  // also matrices that are quantised already
};

struct PlannedTensor {
    TensorInfo info;  // as it is
    TensorType to = TensorType::f32;
    // What was asked for, where rows are too short for its blocks: `to` stands in for it.
    std::optional<TensorType> asked;
    std::uint64_t bytes = 0;  // afterwards

    bool changes() const { return to != info.type; }
};

struct QuantisePlan {
    std::uint32_t file_type = 0;         // general.file_type
    std::string type;                    // "q4_k_m"
    std::vector<PlannedTensor> tensors;  // all of the file's, in its order
    std::uint64_t bytes_before = 0;      // of tensors
    std::uint64_t bytes = 0;
};

// Vectors, routers and what else is not a matrix that rows are multiplied by stay as they are. So
// does a matrix that has the type already. Errors (invalid) name the tensor, rule or type: a type
// that is unknown or has no search, a rule that fits no matrix, a rule's type whose blocks are
// longer than the matrix' rows, a matrix that is quantised and may not be.
base::Result<QuantisePlan> plan_quantise(const GgufFile& file, const QuantiseOptions& options);

// "f16, bf16, ..., q4_k_m": all types and mixes that matrices can be quantised to.
std::string quantise_types();

}  // namespace helix::model
