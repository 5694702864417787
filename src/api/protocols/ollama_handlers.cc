#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/field_reader.h"
#include "api/handlers.h"
#include "api/heavy_work.h"
#include "api/preparation.h"
#include "api/writers/ollama_shape.h"
#include "base/hash.h"

// What Ollama's clients ask of a server besides answers.

namespace helix::api::handle {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;

// 64 hexadecimal digits that stay the same for a model, as clients expect of a digest. The file's
// own is not known here.
std::string digest_of(const ModelInfo& model) {
    const std::string text =
        fmt::format("{}\n{}\n{}", model.name, model.size_bytes, model.n_params);
    const std::string twice = text + text;
    return base::to_hex(base::hash128(std::as_bytes(std::span(text)))) +
           base::to_hex(base::hash128(std::as_bytes(std::span(twice))));
}

json ollama_details(const ModelInfo& model) {
    const double billions = static_cast<double>(model.n_params) / 1e9;
    return {{"parent_model", ""},
            {"format", "gguf"},
            {"family", model.architecture},
            {"families", json::array({model.architecture})},
            {"parameter_size", billions >= 1 ? fmt::format("{:.1f}B", billions)
                                             : fmt::format("{:.1f}M", billions * 1e3)},
            {"quantization_level", model.quantization}};
}

json ollama_model(const ModelInfo& model, const std::string& name) {
    return {{"name", name},
            {"model", name},
            {"size", model.size_bytes},
            {"digest", digest_of(model)},
            {"details", ollama_details(model)}};
}

// Each model under each of its names.
template <typename MakeItem>
void answer_models(ApiContext& context, const Exchange& exchange, const MakeItem& make) {
    json items = json::array();
    for (const ModelEntry& entry : context.models.all()) {
        items.push_back(make(entry, entry.info.name));
        for (const std::string& alias : entry.info.aliases) items.push_back(make(entry, alias));
    }
    context.respond(*exchange, json_response({{"models", std::move(items)}}));
}

json capabilities_of(const std::string& chat_template) {
    const auto has = [&](std::string_view word) {
        return chat_template.find(word) != std::string::npos;
    };
    json all = {"completion"};
    if (has("tools")) all.push_back("tools");
    if (has("reasoning_content") || has("enable_thinking")) all.push_back("thinking");
    return all;
}

json shown_model(const ModelEntry& entry) {
    const ModelInfo& model = entry.info;
    const std::string chat_template(entry.codec->chat_template());
    const std::string& kind = model.architecture;
    return {{"modelfile", ""},
            {"parameters", ""},
            {"license", ""},
            {"template", chat_template},
            {"details", ollama_details(model)},
            {"model_info",
             {{"general.architecture", kind},
              {"general.parameter_count", model.n_params},
              {kind + ".context_length", model.context_length},
              {kind + ".embedding_length", model.hidden},
              {kind + ".block_count", model.n_layers}}},
            {"capabilities", capabilities_of(chat_template)},
            {"modified_at", ollama_time(model.created)}};
}

std::optional<ApiError> find_shown(const ApiContext& context, const HeavyInput& input,
                                   const ModelEntry*& model) {
    Ordered body;
    if (auto error = read_body(context.options.request_limits, input.body, *input.share, body)) {
        return error;
    }
    FieldReader fields(body);
    std::string name;
    fields.text(field::kShowName, name);  // the older field
    read_model_name(fields, context.options.request_limits, name);
    if (name.empty()) fields.fail(field::kModel, "is required");
    if (fields.failed()) return fields.error();
    model = context.models.find(name);
    if (model == nullptr) return model_not_found(name);
    return {};
}

}  // namespace

void ollama_tags(ApiContext& context, const Exchange& exchange, Words) {
    answer_models(context, exchange, [](const ModelEntry& entry, const std::string& name) {
        json item = ollama_model(entry.info, name);
        item["modified_at"] = ollama_time(entry.info.created);
        return item;
    });
}

// A model that is served is loaded, and stays.
void ollama_running(ApiContext& context, const Exchange& exchange, Words) {
    constexpr std::int64_t kDayS = 86'400;
    const std::string until = ollama_time(context.options.unix_time() + kDayS);
    answer_models(context, exchange, [&](const ModelEntry& entry, const std::string& name) {
        json item = ollama_model(entry.info, name);
        item["expires_at"] = until;
        item["size_vram"] = 0;
        item["context_length"] = entry.info.context_length;
        return item;
    });
}

void ollama_show(ApiContext& context, const Exchange& exchange, Words) {
    run_heavy(context, exchange, client_of(context, exchange->request()),
              [c = &context, exchange](const HeavyInput& input) {
                  const ModelEntry* model = nullptr;
                  auto error = find_shown(*c, input, model);
                  return Then([c, exchange, model, error = std::move(error)] {
                      if (error) return c->refuse(*exchange, *error);
                      c->respond(*exchange, json_response(shown_model(*model)));
                  });
              });
}

}  // namespace helix::api::handle
