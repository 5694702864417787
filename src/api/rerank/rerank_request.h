#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"
#include "api/limits.h"
#include "api/model_registry.h"
#include "api/request_budget.h"

// The bodies of the endpoints that answer how well documents fit queries, read, checked and
// tokenised.

namespace helix::api {

enum class RerankForm {
    rerank,  // /v1/rerank: documents in the order in which they fit one query
    score    // /v1/score: a score for each pair
};

struct RerankRequest {
    RerankForm form = RerankForm::rerank;
    std::string model;  // "" = whatever is served
    std::optional<std::string> instruction;
    std::vector<std::string> queries;    // one, or as many as there are documents
    std::vector<std::string> documents;  // at least one
    std::int32_t top_n = 0;              // so many of the best are shown; 0 = all
    bool return_documents = true;
    std::int32_t priority = 0;  // higher first, as in core

    const std::string& query_of(std::size_t document) const {
        return queries.size() == 1 ? queries.front() : queries[document];
    }
};

struct PreparedRerank {
    const ModelEntry* model = nullptr;
    RerankRequest request;                        // with documents only where they are shown again
    std::vector<std::vector<Token>> prompts;      // one for each document
    std::int64_t answer_bytes = 0;                // that the answer takes at most
    std::shared_ptr<RequestBudget::Share> share;  // in the end it holds all, the answer too
};

// Any thread. share holds the bytes of body. Once dropped is true nobody waits any more.
std::optional<ApiError> prepare_rerank(const RequestLimits& limits, const ModelRegistry& models,
                                       RerankForm form, const std::string& body,
                                       const std::atomic<bool>& dropped, PreparedRerank& prepared);

}  // namespace helix::api
