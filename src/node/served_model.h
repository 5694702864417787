#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/ops/kv_type.h"
#include "model/digest_cache.h"
#include "model/manifest.h"
#include "model/weight_source.h"
#include "net/zmq_frame.h"
#include "spec/model_spec.h"
#include "wire/messages.h"

namespace helix::node {

// What a coordinator serves. Without weights (a modelled cluster) manifest and weights are null.
struct ServedModel {
    spec::ModelSpec spec;
    std::int32_t hidden_size = 0;
    std::int32_t vocab_size = 0;
    spec::Pooling pooling = spec::Pooling::mean;             // of embeddings, by its file
    bool ranks = false;                                      // it has a head that ranks documents
    engine::ops::KvType kv_type = engine::ops::KvType::f16;  // on every worker
    base::Hash128 hash;
    std::shared_ptr<const model::ModelManifest> manifest;
    std::shared_ptr<model::WeightSource> weights;
    // Tensors that were asked for lately, the latest last, so that a source that makes them does so
    // once for all pieces of a tensor, and yet keeps few of them.
    struct Recent {
        std::int32_t tensor = 0;
        net::Frame data;
    };
    std::shared_ptr<std::vector<Recent>> recent = std::make_shared<std::vector<Recent>>();
};

// The weights of a model, which any thread may use. They are hashed, but where `digests` knows
// them.
base::Result<ServedModel> serve_weights(std::shared_ptr<model::WeightSource> weights,
                                        const model::DigestCache& digests = {});
// Opens a model file or folder and hashes it.
base::Result<ServedModel> open_served_model(const std::string& path,
                                            const model::WeightOptions& options = {});
// Sets the type of the workers' KV pages, which have block_size tokens; the spec then counts with
// it.
base::Status set_kv_type(ServedModel& served, engine::ops::KvType type, std::int32_t block_size);
// A model of this shape that exists on paper only; for modelled workers.
ServedModel modelled_model(const spec::ModelSpec& spec, std::int32_t vocab_size);

// Answers a worker that asks for a part of the model's content.
struct WeightAnswer {
    wire::Message message;
    net::Frame data;  // the raw frame: a view, which keeps what it shows
};
WeightAnswer answer_manifest(const ServedModel& model);
WeightAnswer answer_chunk(const ServedModel& model, const wire::ChunkRequest& request);

}  // namespace helix::node
