#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"
#include "model/weight_source.h"

// What `helix model info` tells of a file.

namespace helix::model {

struct TypeShare {
    std::string type;  // "q8_0"
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
};

struct ModelInfo {
    std::string path;
    std::string name;
    std::string architecture;  // empty when the file does not say
    std::uint32_t gguf_version = 0;
    std::int64_t file_bytes = 0;  // header and tensors
    std::int64_t tensors = 0;
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;  // those that one token uses; fewer where there are experts
    std::vector<TypeShare> types;        // most bytes first
    // Set when this program can run the model, else problem says why not.
    std::optional<ModelConfig> config;
    spec::ModelSpec spec;
    std::string problem;
    std::string tokenizer;  // tokenizer.ggml.model; empty without one
    std::string pre_tokenizer;
    std::int64_t tokens = 0;
    bool chat_template = false;
};

// Collects what can be told, even of files that cannot be run: a vocabulary alone, or another
// architecture.
ModelInfo collect_info(WeightSource& source);
ModelInfo collect_info(const GgufFile& file);

// As aligned lines for people, or as one JSON object for programs.
std::string describe_text(const ModelInfo& info);
std::string describe_json(const ModelInfo& info);
inline std::string describe_text(const GgufFile& file) {
    return describe_text(collect_info(file));
}
inline std::string describe_json(const GgufFile& file) {
    return describe_json(collect_info(file));
}

// Numbers for people: "1.10 B", "637.4 MiB".
std::string human_count(std::int64_t count);
std::string human_bytes(std::int64_t bytes);

}  // namespace helix::model
