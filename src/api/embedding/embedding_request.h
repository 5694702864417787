#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/completion_request.h"
#include "api/model_registry.h"
#include "api/request_budget.h"

// The bodies of the endpoints that answer embeddings, read, checked and tokenised.

namespace helix::api {

enum class EmbeddingForm {
    openai,        // /v1/embeddings
    ollama,        // /api/embed
    ollama_single  // /api/embeddings, Ollama's older endpoint
};

struct EmbeddingRequest {
    EmbeddingForm form = EmbeddingForm::openai;
    std::string model;               // "" = whatever is served
    std::vector<PlainPrompt> texts;  // none: Ollama's clients only want the model to be there
    bool base64 = false;             // else numbers
    std::int32_t dimensions = 0;     // so many of the first, scaled to length 1; 0 = all
    bool truncate = false;           // a text that is too long loses its end, else it is an error
    std::int32_t priority = 0;       // higher first, as in core

    // How many values there will be, of a model with this hidden size.
    std::int32_t width(std::int32_t hidden) const { return dimensions > 0 ? dimensions : hidden; }
};

struct PreparedEmbedding {
    const ModelEntry* model = nullptr;
    EmbeddingRequest request;  // without its texts
    std::vector<std::vector<Token>> prompts;
    std::int64_t answer_bytes = 0;                // that the answer may take
    std::shared_ptr<RequestBudget::Share> share;  // in the end it holds all, the answer too
};

// Any thread. share holds the bytes of body. Once dropped is true nobody waits any more.
std::optional<ApiError> prepare_embedding(const RequestLimits& limits, const ModelRegistry& models,
                                          EmbeddingForm form, const std::string& body,
                                          const std::atomic<bool>& dropped,
                                          PreparedEmbedding& prepared);

}  // namespace helix::api
