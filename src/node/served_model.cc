#include "node/served_model.h"

#include <fmt/format.h>

#include "engine/modelled/modelled_backend.h"
#include "model/model_config.h"
#include "node/wire_manifest.h"

namespace helix::node {

using base::Result;

namespace {

constexpr std::size_t kMaxErrorBytes = 1000;
constexpr std::size_t kRecentTensors = 4;
// Workers ask for much less at a time.
constexpr std::uint32_t kMaxChunkBytes = 16U << 20U;

// Keeps a tensor's bytes in use for as long as it lives.
class TensorUse {
  public:
    TensorUse(std::shared_ptr<model::WeightSource> weights, std::string name)
        : weights_(std::move(weights)), name_(std::move(name)) {}
    ~TensorUse() { weights_->release(name_); }
    TensorUse(const TensorUse&) = delete;
    TensorUse& operator=(const TensorUse&) = delete;

  private:
    std::shared_ptr<model::WeightSource> weights_;
    std::string name_;
};

// A tensor's bytes, in use for as long as the frame lives.
Result<net::Frame> tensor_data(const ServedModel& model, std::int32_t tensor) {
    std::vector<ServedModel::Recent>& recent = *model.recent;
    for (const ServedModel::Recent& one : recent) {
        if (one.tensor == tensor) return one.data;
    }
    const std::string& name = model.manifest->tensors[static_cast<std::size_t>(tensor)].name;
    TRY(const auto bytes, model.weights->tensor(name));
    recent.push_back({tensor, {std::make_shared<const TensorUse>(model.weights, name), bytes}});
    if (recent.size() > kRecentTensors) recent.erase(recent.begin());
    return recent.back().data;
}

// A part of the header or of a tensor, read from where it lies or from a tensor that is made.
Result<net::Frame> chunk_data(const ServedModel& model, const wire::ChunkRequest& request) {
    const model::ModelManifest& manifest = *model.manifest;
    const bool header = request.tensor == wire::kHeaderChunk;
    const auto index = static_cast<std::size_t>(request.tensor);
    if (!header && index >= manifest.tensors.size()) {
        return base::invalid(fmt::format("the model has no tensor number {}", index));
    }
    const std::uint64_t size = header ? manifest.header.size() : manifest.tensors[index].bytes;
    if (request.offset > size || request.length > size - request.offset) {
        return base::invalid(
            fmt::format("{} bytes at {} of a tensor of {}", request.length, request.offset, size));
    }
    if (request.length > kMaxChunkBytes) {
        return base::invalid(
            fmt::format("{} bytes at once, the limit is {}", request.length, kMaxChunkBytes));
    }
    net::Frame data{model.manifest, manifest.header};
    if (!header) {
        const auto part = std::make_shared<std::vector<std::byte>>(request.length);
        const auto read =
            model.weights->read_part(manifest.tensors[index].name, request.offset, *part);
        if (read && !read->ok()) return read->error();
        if (read) return net::Frame{part, *part};
        TRY(data, tensor_data(model, request.tensor));
    }
    data.bytes = data.bytes.subspan(request.offset, request.length);
    return data;
}

}  // namespace

Result<ServedModel> serve_weights(std::shared_ptr<model::WeightSource> weights,
                                  const model::DigestCache& digests) {
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    ServedModel served;
    TRY(served.spec, model::read_model_spec(weights->file()));
    TRY(model::ModelManifest manifest, digests.manifest(*weights));
    served.hidden_size = config.hidden;
    served.vocab_size = config.vocab;
    served.pooling = config.pooling;
    served.ranks = config.rank_head.present();
    served.hash = manifest.model_hash;
    served.manifest = std::make_shared<const model::ModelManifest>(std::move(manifest));
    served.weights = std::move(weights);
    return served;
}

Result<ServedModel> open_served_model(const std::string& path,
                                      const model::WeightOptions& options) {
    TRY(auto weights, model::open_weights(path, options));
    return serve_weights(std::move(weights));
}

base::Status set_kv_type(ServedModel& served, engine::ops::KvType type, std::int32_t block_size) {
    if (block_size < 1) return base::invalid("a block size of less than 1");
    TRY(const model::ModelConfig config, model::read_model_config(*served.weights));
    served.kv_type = type;
    served.spec.kv_bytes_per_token_layer = engine::ops::kv_bytes_per_token_layer(
        type, config.page_kv_heads(), config.page_head_dim(), block_size);
    return base::Ok{};
}

ServedModel modelled_model(const spec::ModelSpec& spec, std::int32_t vocab_size) {
    ServedModel served;
    served.spec = spec;
    // Tables of times say nothing of KV. K and V are then taken to be as wide as the activations,
    // which is right for models without grouped heads and more than enough for the others.
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
    auto data = chunk_data(model, request);
    if (data.ok()) return {chunk, std::move(*data)};
    chunk.error = data.error().message.substr(0, kMaxErrorBytes);
    return {chunk, {}};
}

}  // namespace helix::node
