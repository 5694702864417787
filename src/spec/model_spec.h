#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/attention_window.h"
#include "spec/layer_range.h"

namespace helix::spec {

// What placement, routing and the simulator need to know of a model; the engine's own view is
// model::ModelConfig. Sizes are in bytes, per layer or per token as the name says.
struct ModelSpec {
    std::string name;
    std::int32_t n_layers = 0;
    std::int64_t layer_bytes = 0;                 // weights of the largest layer, as stored
    std::int64_t embedding_bytes = 0;             // held by whoever runs layer 0
    std::int64_t head_bytes = 0;                  // output norm and head: whoever runs layer L-1
    std::int64_t activation_bytes_per_token = 0;  // what crosses a link between two stages
    std::int64_t token_bytes = 4;                 // what crosses a link to or from the coordinator
    std::int64_t kv_bytes_per_token_layer = 0;
    // Of what a token uses, in the mean of all layers; a multiply-add counts as two.
    double flops_per_token_layer = 0;
    std::int32_t context_length = 0;
    // Mixture of experts: what of a layer is experts, in the mean of all layers, of which a token
    // uses n_experts_used of n_experts. All three are 0 in a dense model.
    std::int64_t layer_expert_bytes = 0;
    std::int32_t n_experts = 0;
    std::int32_t n_experts_used = 0;
    // Weights of each layer, as stored, where layers differ; empty: each has layer_bytes. Set by
    // set_layer_sizes().
    std::vector<std::int64_t> bytes_of_layer = {};
    // Every token of a text attends to all of them: the model makes embeddings and draws no tokens,
    // and a prompt is computed in one piece.
    bool encoder = false;
    // Of layers that do not attend to all positions before them.
    AttentionWindow window = {};
    // Weights that everybody holds who runs any layer: tables of tokens that every layer reads.
    // embedding_bytes does not have them, too.
    std::int64_t common_bytes = 0;
    // The last so many layers read each other's keys and values: a sequence runs all of them in one
    // place, see may_cut(). 0: there are none.
    std::int32_t joined_layers = 0;
    // Of these, the last so many have no keys and values of their own and take no KV memory.
    std::int32_t shared_kv_layers = 0;
};

// Those of the layers that have keys and values of their own.
constexpr LayerRange kv_layers(const ModelSpec& model, LayerRange layers) {
    return kv_layers(layers, model.n_layers, model.shared_kv_layers);
}
// How many those are at most of so many layers in a row that somebody may hold, of which one has
// some; where they end with the last, of these alone.
std::int32_t most_kv_layers(const ModelSpec& model, std::int32_t layers, bool last = false);

// Whether one place may run the layers before this one, and another this one and those behind it.
constexpr bool may_cut(const ModelSpec& model, std::int32_t layer) {
    return layer <= model.n_layers - model.joined_layers || layer >= model.n_layers;
}
// Whether somebody may hold these layers and no others.
constexpr bool may_hold(const ModelSpec& model, LayerRange layers) {
    return layers.empty() || (may_cut(model, layers.begin) && may_cut(model, layers.end));
}

// One number for each layer: fills layer_bytes and bytes_of_layer.
void set_layer_sizes(ModelSpec& model, std::vector<std::int64_t> bytes_of_layer);

// What these layers' weights take, with embedding and head where they are the first and the last,
// and with what everybody holds.
std::int64_t stored_bytes(const ModelSpec& model, LayerRange layers);

// What so many layers in a row take at most, without embedding, head and what everybody holds:
// where they must begin with the first or end with the last, of these alone.
std::int64_t most_stored_bytes(const ModelSpec& model, std::int32_t layers, bool first = false,
                               bool last = false);

// A layer to measure in the place of all, before those that are joined: between the first and the
// last where there are such, of a size near the mean of all, of several the largest and of these
// the first.
std::int32_t typical_layer(const ModelSpec& model);

// The bytes of a layer that a batch of this many tokens reads, in the mean of all layers: all of a
// dense layer; of the experts those that some token is expected to use if all are equally likely.
double layer_bytes_read(const ModelSpec& model, double tokens);

// The tokens whose KV a sequence of so many has, in the mean of the layers that have keys and
// values of their own: all of them where there is no window, and no more than its positions in the
// layers that have it.
double kept_tokens(const ModelSpec& model, double tokens);

}  // namespace helix::spec
