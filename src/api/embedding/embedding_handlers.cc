#include <memory>
#include <utility>

#include "api/embedding/embedding_answer.h"
#include "api/handlers.h"
#include "api/heavy_work.h"

namespace helix::api::handle {

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
            std::make_shared<EmbeddingAnswer>(*c, exchange, std::move(*prepared))->start();
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

}  // namespace helix::api::handle
