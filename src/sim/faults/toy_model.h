#pragma once

#include <cstdint>
#include <vector>

#include "core/protocol/types.h"
#include "spec/attention_window.h"
#include "spec/pooling.h"

// A decoder made of hashes: what a row becomes depends on its token, its position, every layer it
// passed in order, and the keys of all earlier positions at each layer, or in layers with a window
// of those within it. Anything wrong in chunking,
// paging, routing or ordering changes the tokens.

namespace helix::sim {

std::uint64_t toy_embed(core::Token token, std::int32_t position);
// What a row writes to a layer's KV page.
std::uint64_t toy_key(std::uint64_t row, std::int32_t layer);
// A row after a layer; keys_digest is the sum of the keys of the positions up to its own, of those
// that it attends to, at this layer.
std::uint64_t toy_layer(std::uint64_t row, std::int32_t layer, std::uint64_t keys_digest);
core::Token toy_sample(std::uint64_t row, std::uint64_t seed, std::int32_t position,
                       std::int32_t vocab);

// The n likeliest tokens after a row, best first (their probabilities need not add up to 1).
std::vector<spec::TokenLogprob> toy_top(std::uint64_t row, std::int32_t n, std::int32_t vocab);

// What is pooled of a prompt after one more of its rows; 0 before the first.
std::uint64_t toy_pool(std::uint64_t so_far, std::uint64_t row, std::int32_t position,
                       spec::Pooling pooling);
// The embedding or score that this makes.
std::vector<float> toy_embedding(std::uint64_t pooled, spec::Pooling pooling);

// The rows of these tokens past all layers, computed plainly.
std::vector<std::uint64_t> toy_rows(const std::vector<core::Token>& tokens, std::int32_t n_layers,
                                    const spec::AttentionWindow& window = {});

// The oracle: prompt -> n_output tokens, computed plainly, without any of core.
std::vector<core::Token> toy_generate(const std::vector<core::Token>& prompt, std::int32_t n_output,
                                      std::int32_t n_layers, std::uint64_t seed, std::int32_t vocab,
                                      const spec::AttentionWindow& window = {});

}  // namespace helix::sim
