#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "api/handlers.h"

// What the web page of llama.cpp's server asks before it chats.

namespace helix::api::handle {
namespace {

using nlohmann::json;

// A slot is a request that runs. One more is always free: nothing here is made for a fixed number.
std::int64_t slots_of(const ModelEntry& model) {
    return std::max<std::int64_t>(0, model.service->view().running) + 1;
}

}  // namespace

void props(ApiContext& context, const Exchange& exchange, Words) {
    const ModelEntry& model = context.models.first();
    const spec::SamplingParams usual;
    const json params = {{"temperature", usual.temperature},
                         {"top_k", usual.top_k},
                         {"top_p", usual.top_p},
                         {"min_p", usual.min_p},
                         {"n_predict", -1},
                         {"stream", true}};
    context.respond(*exchange,
                    json_response({{"default_generation_settings",
                                    {{"n_ctx", model.info.context_length}, {"params", params}}},
                                   {"total_slots", slots_of(model)},
                                   {"model_alias", model.info.name},
                                   {"model_path", model.info.name},
                                   {"modalities", {{"vision", false}, {"audio", false}}},
                                   {"chat_template", std::string(model.codec->chat_template())},
                                   {"build_info", "helix " + context.options.version},
                                   {"role", "model"}}));
}

void slots(ApiContext& context, const Exchange& exchange, Words) {
    const ModelEntry& model = context.models.first();
    const std::int64_t count = slots_of(model);
    json all = json::array();
    for (std::int64_t i = 0; i < count; ++i) {
        all.push_back(
            {{"id", i}, {"n_ctx", model.info.context_length}, {"is_processing", i + 1 < count}});
    }
    context.respond(*exchange, json_response(all));
}

}  // namespace helix::api::handle
