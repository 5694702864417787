#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/embedding/pooled_answer.h"
#include "api/rerank/rerank_request.h"

// The bytes of an answer of scores.

namespace helix::api {

// The most bytes that the answer to the request takes.
std::int64_t most_rerank_bytes(const RerankRequest& request);

// JSON, as the request's form has it. values: one for each document, in order; created: Unix
// seconds.
std::string rerank_json(const RerankRequest& request, const PooledAnswerHead& head,
                        const std::vector<std::vector<float>>& values, std::int64_t created);

}  // namespace helix::api
