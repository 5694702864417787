#include <memory>
#include <utility>

#include "api/embedding/embedding_writer.h"
#include "api/embedding/pooled_answer.h"
#include "api/handlers.h"
#include "api/heavy_work.h"

namespace helix::api {
namespace {

PooledPrompts to_pool(PreparedEmbedding prepared) {
    const ModelInfo& model = prepared.model->info;
    EmbeddingRequest& request = prepared.request;
    PooledPrompts asked;
    asked.model = prepared.model;
    asked.model_name = request.model;
    asked.endpoint = "embeddings";
    asked.id_prefix = "embd";
    asked.prompts = std::move(prepared.prompts);
    asked.pooling = model.pooling;
    asked.width = static_cast<std::size_t>(model.hidden);
    asked.dimensions = request.dimensions;
    asked.priority = request.priority;
    asked.answer_bytes = prepared.answer_bytes;
    asked.write = [request = std::move(request)](const PooledAnswerHead& head,
                                                 const std::vector<std::vector<float>>& values) {
        return embedding_json(request, head, values);
    };
    asked.share = std::move(prepared.share);
    return asked;
}

}  // namespace

namespace handle {

void embed(ApiContext& context, const Exchange& exchange, EmbeddingForm form,
           const std::string& client) {
    if (context.draining) {
        context.refuse(*exchange, unavailable("The server is shutting down.", 5));
        return;
    }
    run_heavy(context, exchange, client, [c = &context, exchange, form](HeavyInput input) {
        auto prepared = std::make_shared<PreparedEmbedding>();
        prepared->share = std::move(input.share);
        auto error = prepare_embedding(c->options.request_limits, c->models, form, input.body,
                                       *input.dropped, *prepared);
        if (error) *prepared = {};  // here, where it keeps nobody waiting
        return Then([c, exchange, prepared, error = std::move(error)] {
            if (error) return c->refuse(*exchange, *error);
            std::make_shared<PooledAnswer>(*c, exchange, to_pool(std::move(*prepared)))->start();
        });
    });
}

void embeddings(ApiContext& context, const Exchange& exchange, Words) {
    embed(context, exchange, EmbeddingForm::openai, client_of(context, exchange->request()));
}

void ollama_embed(ApiContext& context, const Exchange& exchange, Words) {
    embed(context, exchange, EmbeddingForm::ollama, client_of(context, exchange->request()));
}

void ollama_embeddings(ApiContext& context, const Exchange& exchange, Words) {
    embed(context, exchange, EmbeddingForm::ollama_single, client_of(context, exchange->request()));
}

}  // namespace handle
}  // namespace helix::api
