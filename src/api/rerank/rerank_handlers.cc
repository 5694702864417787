#include <memory>
#include <utility>

#include "api/embedding/pooled_answer.h"
#include "api/handlers.h"
#include "api/heavy_work.h"
#include "api/rerank/rerank_request.h"
#include "api/rerank/rerank_writer.h"

namespace helix::api {
namespace {

PooledPrompts to_rank(ApiContext& context, PreparedRerank prepared) {
    const bool scores = prepared.request.form == RerankForm::score;
    PooledPrompts asked;
    asked.model = prepared.model;
    asked.model_name = prepared.request.model;
    asked.endpoint = scores ? "score" : "rerank";
    asked.id_prefix = asked.endpoint;
    asked.prompts = std::move(prepared.prompts);
    asked.pooling = spec::Pooling::rank;
    asked.width = 1;
    asked.priority = prepared.request.priority;
    asked.answer_bytes = prepared.answer_bytes;
    asked.write = [request = std::move(prepared.request), created = context.options.unix_time()](
                      const PooledAnswerHead& head, const std::vector<std::vector<float>>& values) {
        return rerank_json(request, head, values, created);
    };
    asked.share = std::move(prepared.share);
    return asked;
}

void rank_documents(ApiContext& context, const handle::Exchange& exchange, RerankForm form) {
    if (context.draining) {
        context.refuse(*exchange, unavailable("The server is shutting down.", 5));
        return;
    }
    const std::string client = client_of(context, exchange->request());
    run_heavy(context, exchange, client, [c = &context, exchange, form](HeavyInput input) {
        auto prepared = std::make_shared<PreparedRerank>();
        prepared->share = std::move(input.share);
        auto error = prepare_rerank(c->options.request_limits, c->models, form, input.body,
                                    *input.dropped, *prepared);
        if (error) *prepared = {};  // here, where it keeps nobody waiting
        return Then([c, exchange, prepared, error = std::move(error)] {
            if (error) return c->refuse(*exchange, *error);
            std::make_shared<PooledAnswer>(*c, exchange, to_rank(*c, std::move(*prepared)))
                ->start();
        });
    });
}

}  // namespace

namespace handle {

void rerank(ApiContext& context, const Exchange& exchange, Words) {
    rank_documents(context, exchange, RerankForm::rerank);
}

void score(ApiContext& context, const Exchange& exchange, Words) {
    rank_documents(context, exchange, RerankForm::score);
}

}  // namespace handle
}  // namespace helix::api
