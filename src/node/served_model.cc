#include "node/served_model.h"

#include <fmt/format.h>

#include "engine/modelled_backend.h"
#include "model/local_weights.h"
#include "model/model_config.h"
#include "node/wire_weights.h"

namespace helix::node {

using base::Result;

Result<ServedModel> open_served_model(const std::string& path) {
    TRY(std::unique_ptr<model::LocalWeights> weights, model::LocalWeights::open(path));
    TRY(const model::ModelConfig config, model::read_model_config(weights->file()));
    ServedModel served;
    TRY(served.spec, model::read_model_spec(weights->file()));
    TRY(model::ModelManifest manifest, model::build_manifest(weights->file()));
    served.hidden_size = config.hidden;
    served.vocab_size = config.vocab;
    served.hash = manifest.model_hash;
    served.manifest = std::make_shared<const model::ModelManifest>(std::move(manifest));
    served.weights = std::move(weights);
    return served;
}

ServedModel modelled_model(const spec::ModelSpec& spec, std::int32_t vocab_size) {
    ServedModel served;
    served.spec = spec;
    // Tables of times say nothing of KV. K and V are then as wide as the activations: right for
    // models without grouped heads, and more than enough for the others.
    if (spec.kv_bytes_per_token_layer == 0) {
        served.spec.kv_bytes_per_token_layer = 2 * spec.activation_bytes_per_token;
    }
    served.hidden_size = engine::kModelledRowFloats;
    served.vocab_size = vocab_size;
    const std::string identity =
        fmt::format("modelled {} {} {}", spec.name, spec.n_layers, spec.layer_bytes);
    served.hash = base::hash128(std::as_bytes(std::span(identity)));
    return served;
}

WeightAnswer answer_manifest(const ServedModel& model) {
    if (model.manifest == nullptr) {
        return {wire::Chunk{wire::kHeaderChunk, 0, 0, "the model is modelled; it has no weights"},
                {}};
    }
    return {to_wire(*model.manifest), {}};
}

WeightAnswer answer_chunk(const ServedModel& model, const wire::ChunkRequest& request) {
    wire::Chunk chunk{request.tensor, request.offset, request.length, ""};
    if (model.manifest == nullptr || model.weights == nullptr) {
        chunk.error = "the model is modelled; it has no weights";
        return {chunk, {}};
    }
    std::span<const std::byte> bytes = model.manifest->header;
    if (request.tensor != wire::kHeaderChunk) {
        const auto index = static_cast<std::size_t>(request.tensor);
        if (index >= model.manifest->tensors.size()) {
            chunk.error = fmt::format("the model has no tensor number {}", index);
            return {chunk, {}};
        }
        auto tensor = model.weights->tensor(model.manifest->tensors[index].name);
        if (!tensor.ok()) {
            chunk.error = tensor.error().message.substr(0, 1000);
            return {chunk, {}};
        }
        bytes = *tensor;
    }
    if (request.offset > bytes.size() || request.length > bytes.size() - request.offset) {
        chunk.error = fmt::format("{} bytes at {} of a tensor of {}", request.length,
                                  request.offset, bytes.size());
        return {chunk, {}};
    }
    return {chunk, bytes.subspan(request.offset, request.length)};
}

}  // namespace helix::node
