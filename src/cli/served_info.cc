#include "cli/served_info.h"

#include <cctype>

#include "base/log.h"

namespace helix::cli {

api::ModelInfo info_of(const model::ModelInfo& file, const spec::ModelSpec& model,
                       const ServedTraits& traits) {
    api::ModelInfo info;
    info.context_length = model.context_length;
    info.n_params = file.parameters;
    info.size_bytes = file.file_bytes;
    info.hidden = traits.hidden;
    info.n_layers = model.n_layers;
    info.architecture = file.architecture;
    info.pooling = traits.pooling;
    info.ranks = traits.ranks;
    info.encoder = model.encoder;
    info.content_hash = base::to_hex(traits.content);
    info.kv_type = traits.kv_type;
    if (!file.types.empty()) info.quantization = file.types.front().type;
    for (char& c : info.quantization) c = static_cast<char>(std::toupper(c));
    return info;
}

void tell_pooling(const api::ModelInfo& model) {
    if (model.pooling == spec::Pooling::none) {
        LOG_INFO("no embeddings: the model's file has no pooling_type that makes one");
    } else {
        LOG_INFO("embeddings have {} values, by pooling \"{}\"", model.hidden,
                 spec::to_string(model.pooling));
    }
    if (model.encoder) {
        LOG_INFO("it is {} and writes no text",
                 model.ranks ? "a cross-encoder: it answers /v1/rerank and /v1/score"
                             : "an encoder: it answers /v1/embeddings");
    }
    if (model.ranks) LOG_INFO("documents can be ranked (/v1/rerank)");
}

}  // namespace helix::cli
