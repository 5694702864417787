#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "model/manifest.h"
#include "model/weight_source.h"
#include "spec/model_spec.h"
#include "wire/messages.h"

namespace helix::node {

// What a coordinator serves. Without weights (a modelled cluster) manifest and weights are null.
struct ServedModel {
    spec::ModelSpec spec;
    std::int32_t hidden_size = 0;
    std::int32_t vocab_size = 0;
    base::Hash128 hash;
    std::shared_ptr<const model::ModelManifest> manifest;
    std::shared_ptr<model::WeightSource> weights;
};

// Opens and hashes a model file.
base::Result<ServedModel> open_served_model(const std::string& path);
// A model of this shape that exists on paper only; for modelled workers.
ServedModel modelled_model(const spec::ModelSpec& spec, std::int32_t vocab_size);

// Answers a worker's question for the model's content.
struct WeightAnswer {
    wire::Message message;
    std::span<const std::byte> bytes;  // the raw frame; of the mapped file
};
WeightAnswer answer_manifest(const ServedModel& model);
WeightAnswer answer_chunk(const ServedModel& model, const wire::ChunkRequest& request);

}  // namespace helix::node
