#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/embedding/embedding_request.h"
#include "api/embedding/pooled_answer.h"

// The bytes of an answer of embeddings.

namespace helix::api {

// The most bytes that one value takes in an answer.
std::int64_t most_value_bytes(bool base64);

// The first values of an embedding, as many as dimensions, scaled to length 1; all if dimensions is
// 0. Values that are all 0 stay so.
std::vector<float> shortened(std::span<const float> values, std::int32_t dimensions);

// Little-endian 32-bit floats in base64.
std::string base64_of(std::span<const float> values);

// JSON, as the request's form has it. values: one for each input, in order.
std::string embedding_json(const EmbeddingRequest& request, const PooledAnswerHead& head,
                           const std::vector<std::vector<float>>& values);

}  // namespace helix::api
