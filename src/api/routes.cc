#include "api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/completion.h"
#include "api/completion_request.h"
#include "api/field_reader.h"
#include "api/heavy_work.h"
#include "api/job_routes.h"
#include "api/json_text.h"
#include "api/long_answer.h"
#include "api/nodes.h"
#include "api/preparation.h"
#include "base/check.h"

namespace helix::api {
namespace {

using Exchange = std::shared_ptr<net::HttpExchange>;
using nlohmann::json;                 // for answers
using Json = nlohmann::ordered_json;  // for requests, since templates show the order

net::HttpResponse loading() {
    net::HttpResponse response;
    response.status = 503;
    // The shape is llama-server's, which tools that wait for a model look for.
    response.body =
        R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error","param":null}})";
    response.headers = {{"retry-after", "1"}};
    return response;
}

void health(ApiContext& context, const Exchange& exchange) {
    const bool serving = context.service.view().serving;
    context.respond(*exchange, serving ? json_response({{"status", "ok"}}) : loading());
}

void ready(ApiContext& context, const Exchange& exchange) {
    if (context.draining) {
        context.respond(*exchange, error_response(unavailable("The server is draining.", 5)));
        return;
    }
    health(context, exchange);
}

void live(ApiContext& context, const Exchange& exchange) {
    context.respond(*exchange, json_response({{"status", "ok"}}));
}

void version(ApiContext& context, const Exchange& exchange) {
    context.respond(*exchange, json_response({{"version", context.options.version}}));
}

void metrics(ApiContext& context, const Exchange& exchange) {
    net::HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_text(context.metrics, context.service.view(), context.options.model.id,
                                 {context.connections(), context.heavy.size(),
                                  context.budget.requests(), context.budget.bytes()});
    context.respond(*exchange, response);
}

void cluster(ApiContext& context, const Exchange& exchange) {
    context.respond(*exchange, json_response(cluster_json(context.service.view(), context.log)));
}

void nodes(ApiContext& context, const Exchange& exchange) {
    context.respond(*exchange, json_response(nodes_json(context.service.view())));
}

// POST /helix/nodes/NAME/ACTION: accepted; GET /helix/nodes tells how it goes.
void node_action(ApiContext& context, const Exchange& exchange, std::string_view rest) {
    const auto refuse = [&](const std::string& message) {
        context.respond(
            *exchange, error_response({404, message, "invalid_request_error", "", "not_found", 0}));
    };
    const auto call = parse_node_call(rest);
    if (!call) return refuse("Expected /helix/nodes/NAME/drain, undrain or remove.");
    const core::ClusterView view = context.service.view();
    const core::WorkerView* worker = find_node(view, call->name);
    const bool away = worker == nullptr && is_drained_away(view, call->name);
    if (worker == nullptr && !away) {
        return refuse(fmt::format("There is no worker \"{}\".", call->name));
    }
    auto event = drain_event(away ? core::WorkerId{} : worker->worker, call->action);
    if (!event) {
        return refuse(
            fmt::format("A worker takes drain, undrain or remove, not \"{}\".", call->action));
    }
    if (away && !event->off) {
        return refuse(fmt::format("Worker \"{}\" is drained and not here.", call->name));
    }
    nlohmann::json answer = {{"name", call->name}, {"action", call->action}};
    if (away) {
        event->name = call->name;
    } else {
        answer["id"] = worker->worker.value;
    }
    context.service.drain(*event);
    net::HttpResponse response = json_response(answer);
    response.status = 202;
    context.respond(*exchange, response);
}

// POST /helix/requests/ID/move: accepted; the cluster view tells what came of it.
void request_action(ApiContext& context, const Exchange& exchange, std::string_view rest) {
    constexpr std::string_view kMove = "/move";
    const std::string_view id = rest.substr(0, rest.find('/'));
    const std::vector<core::RequestId> found = context.log.find(id);
    if (rest.substr(id.size()) != kMove || found.empty()) {
        const std::string message =
            rest.substr(id.size()) != kMove
                ? "Expected /helix/requests/ID/move."
                : fmt::format("There is no request \"{}\" among the last ones.", id);
        return context.respond(
            *exchange, error_response({404, message, "invalid_request_error", "", "not_found", 0}));
    }
    for (const core::RequestId request : found) context.service.move(request);
    net::HttpResponse response = json_response({{"id", id}, {"action", "move"}});
    response.status = 202;
    context.respond(*exchange, response);
}

// ---- models
// ----------------------------------------------------------------------------------------

json model_json(const ApiContext& context, const std::string& id) {
    const ModelInfo& model = context.options.model;
    return {{"id", id},
            {"object", "model"},
            {"created", model.created},
            {"owned_by", "helix"},
            {"root", model.id},
            {"max_model_len", model.context_length},
            {"meta",
             {{"n_ctx_train", model.context_length},
              {"n_vocab", context.codec->vocab_size()},
              {"n_embd", model.hidden},
              {"n_layer", model.n_layers},
              {"n_params", model.n_params},
              {"size", model.size_bytes}}},
            {"architecture", {{"input_modalities", {"text"}}, {"output_modalities", {"text"}}}}};
}

void models(ApiContext& context, const Exchange& exchange) {
    json data = json::array({model_json(context, context.options.model.id)});
    for (const std::string& alias : context.options.model.aliases) {
        data.push_back(model_json(context, alias));
    }
    context.respond(*exchange, json_response({{"object", "list"}, {"data", std::move(data)}}));
}

void model(ApiContext& context, const Exchange& exchange, const std::string& id) {
    context.respond(*exchange, context.serves(id) ? json_response(model_json(context, id))
                                                  : error_response(model_not_found(id)));
}

// ---- completions
// -----------------------------------------------------------------------------------

void complete(ApiContext& context, const Exchange& exchange, Endpoint endpoint,
              const std::string& client) {
    if (context.draining) {
        context.respond(*exchange, error_response(unavailable("The server is shutting down.", 5)));
        return;
    }
    run_heavy(context, exchange, client, [c = &context, exchange, endpoint](HeavyInput input) {
        auto prepared = std::make_shared<PreparedCompletion>();
        prepared->share = std::move(input.share);
        auto error = prepare_completion(c->options, *c->codec, endpoint, std::move(input.body),
                                        *input.dropped, *prepared);
        if (error) *prepared = {};  // destroyed here, where nobody has to wait for it
        return Then([c, exchange, prepared, error = std::move(error)] {
            if (error) return c->respond(*exchange, error_response(*error));
            std::make_shared<Completion>(*c, exchange, std::move(*prepared))->start();
        });
    });
}

void chat(ApiContext& context, const Exchange& exchange) {
    complete(context, exchange, Endpoint::chat, client_of(context, exchange->request()));
}

void plain(ApiContext& context, const Exchange& exchange) {
    complete(context, exchange, Endpoint::completions, client_of(context, exchange->request()));
}

// ---- tokens
// ----------------------------------------------------------------------------------------

// vLLM's body {"prompt" or "messages", "add_special_tokens"}, or llama-server's
// {"content","add_special"}.
std::optional<ApiError> tokenize_body(const ApiContext& context, Json& body,
                                      std::vector<Token>& tokens) {
    FieldReader fields(body);
    bool chat_prompt = true;
    fields.boolean("add_generation_prompt", chat_prompt);
    const bool vllm = fields.find("prompt") != nullptr;
    bool special = vllm;
    fields.boolean(vllm ? "add_special_tokens" : "add_special", special);
    std::string text;
    fields.text(vllm ? "prompt" : "content", text);
    if (fields.failed()) return fields.error();
    if (fields.find("messages") != nullptr) {
        if (auto error = normalise_messages(body["messages"], context.options.request_limits))
            return error;
        ChatPrompt prompt;
        prompt.messages = &body["messages"];
        prompt.add_generation_prompt = chat_prompt;
        auto encoded = context.codec->encode_chat(prompt);
        if (!encoded.ok()) return from_error(encoded.error());
        tokens = std::move(encoded).value();
        return {};
    }
    if (!vllm && fields.find("content") == nullptr) {
        return bad_field("prompt", "'prompt': one of prompt, content and messages is required");
    }
    tokens = context.codec->encode(text, special);
    return {};
}

std::optional<ApiError> read_detokenize(const ApiContext& context, Json& body,
                                        std::vector<Token>& tokens) {
    const std::int32_t vocab = context.codec->vocab_size();
    bool good = body.contains("tokens") && body["tokens"].is_array();
    for (const Json& item : good ? body["tokens"] : Json::array()) {
        const auto id = as_integer(item);
        good = good && id && *id >= 0 && *id < vocab;
        if (good) tokens.push_back(static_cast<Token>(*id));
    }
    if (good) return {};
    return bad_field(
        "tokens", fmt::format("'tokens': expected an array of token ids from 0 to {}", vocab - 1));
}

// Reads the body within the request's share of memory.
std::optional<ApiError> read_body(const ApiContext& context, const HeavyInput& input, Json& body) {
    std::int64_t bytes = 0;
    if (auto error = measure_json(input.body, context.options.request_limits, bytes)) return error;
    const base::Status held = input.share->resize(input.share->bytes() + bytes);
    if (!held.ok()) return from_error(held.error());
    return parse_json_object(input.body, body);
}

using TokenAnswer = net::HttpResponse (*)(const ApiContext&, const HeavyInput&);

net::HttpResponse tokenized(const ApiContext& context, const HeavyInput& input) {
    Json body;
    std::vector<Token> tokens;
    auto error = read_body(context, input, body);
    if (!error) error = tokenize_body(context, body, tokens);
    if (error) return error_response(*error);
    net::HttpResponse response;
    response.body =
        fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[{}]}}", tokens.size(),
                    context.options.model.context_length, fmt::join(tokens, ","));
    return response;
}

net::HttpResponse detokenized(const ApiContext& context, const HeavyInput& input) {
    Json body;
    std::vector<Token> tokens;
    auto error = read_body(context, input, body);
    if (!error) error = read_detokenize(context, body, tokens);
    if (error) return error_response(*error);
    std::string text;
    append_json_string(text, context.codec->decode(tokens, false));
    net::HttpResponse response;
    response.body = "{\"prompt\":" + text + ",\"content\":" + text + "}";
    return response;
}

void on_pool(ApiContext& context, const Exchange& exchange, TokenAnswer answer) {
    run_heavy(context, exchange, client_of(context, exchange->request()),
              [c = &context, exchange, answer](HeavyInput input) {
                  const auto response = std::make_shared<net::HttpResponse>(answer(*c, input));
                  return Then([c, exchange, response, share = input.share] {
                      if (response->status != 200) return c->respond(*exchange, *response);
                      send_long(*c, exchange,
                                std::make_shared<const std::string>(std::move(response->body)),
                                share);
                  });
              });
}

void tokenize(ApiContext& context, const Exchange& exchange) {
    on_pool(context, exchange, tokenized);
}

void detokenize(ApiContext& context, const Exchange& exchange) {
    on_pool(context, exchange, detokenized);
}

// ---- dispatch
// --------------------------------------------------------------------------------------

struct Route {
    std::string_view path;  // without a leading /v1, which is accepted before each
    std::string_view method;
    void (*handle)(ApiContext&, const Exchange&);
};

constexpr std::array kRoutes = {
    Route{"/chat/completions", "POST", chat}, Route{"/completions", "POST", plain},
    Route{"/models", "GET", models},          Route{"/health", "GET", health},
    Route{"/health/ready", "GET", ready},     Route{"/health/live", "GET", live},
    Route{"/metrics", "GET", metrics},        Route{"/version", "GET", version},
    Route{"/tokenize", "POST", tokenize},     Route{"/detokenize", "POST", detokenize},
    Route{"/helix/cluster", "GET", cluster},  Route{"/helix/nodes", "GET", nodes},
};

ApiError no_such_path(const net::HttpRequest& request) {
    return {404,
            fmt::format("There is no {} {}.", request.method, request.path),
            "invalid_request_error",
            "",
            "not_found",
            0};
}

// Every request that comes over the network goes through here, whatever its route.
bool let_pass(ApiContext& context, const Exchange& exchange) {
    Passage passage = context.guard->check(context.options.clock(), exchange->request());
    exchange->allow_origin(passage.allow_origin);
    const auto response = std::exchange(passage.response, std::nullopt);
    log_end(context.access_log.get(), *exchange, passage, context.options.clock, !response);
    if (response) context.respond(*exchange, *response);
    return !response;
}

void dispatch(ApiContext& context, const Exchange& exchange, const Route& found,
              std::string_view method) {
    const net::HttpRequest& request = exchange->request();
    if (method != found.method) {
        net::HttpResponse response = error_response(
            {405, fmt::format("{} takes {}, not {}.", request.path, found.method, request.method),
             "invalid_request_error", "", "method_not_allowed", 0});
        response.headers.emplace_back("allow", std::string(found.method) + ", OPTIONS");
        context.respond(*exchange, response);
    } else {
        found.handle(context, exchange);
    }
}

void extra_page(ApiContext& context, const Exchange& exchange, const ExtraPage& page) {
    const auto answer = [&page] {
        net::HttpResponse response;
        response.content_type = page.content_type;
        response.body = page.body();
        return response;
    };
    if (!page.heavy) return context.respond(*exchange, answer());
    run_heavy(
        context, exchange, client_of(context, exchange->request()),
        [c = &context, exchange, answer](const HeavyInput&) {
            return Then([c, exchange, response = answer()] { c->respond(*exchange, response); });
        });
}

}  // namespace

void route_trusted(ApiContext& context, const Exchange& exchange) {
    const bool chat_endpoint = exchange->request().path == "/v1/chat/completions";
    CHECK(chat_endpoint || exchange->request().path == "/v1/completions");
    complete(context, exchange, chat_endpoint ? Endpoint::chat : Endpoint::completions,
             kBatchClient);
}

void route(ApiContext& context, const Exchange& exchange) {
    ++context.metrics.http_requests;
    if (!let_pass(context, exchange)) return;
    const net::HttpRequest& request = exchange->request();
    const std::string_view path = without_version(request.path);
    const std::string_view method =
        request.method == "HEAD" ? "GET" : std::string_view(request.method);
    for (const Route& candidate : kRoutes) {
        if (candidate.path == path) return dispatch(context, exchange, candidate, method);
    }
    if (const auto page = context.options.pages.find(request.path);
        page != context.options.pages.end() && method == "GET") {
        extra_page(context, exchange, page->second);
        return;
    }
    constexpr std::string_view kNodes = "/helix/nodes/";
    constexpr std::string_view kRequests = "/helix/requests/";
    constexpr std::string_view kModels = "/models/";
    if (is_job_path(path)) {
        route_job(context, exchange, path);
    } else if (path.starts_with(kNodes) && method == "POST") {
        node_action(context, exchange, path.substr(kNodes.size()));
    } else if (path.starts_with(kRequests) && method == "POST") {
        request_action(context, exchange, path.substr(kRequests.size()));
    } else if (path.starts_with(kModels) && path.size() > kModels.size() && method == "GET") {
        model(context, exchange, std::string(path.substr(kModels.size())));
    } else {
        context.respond(*exchange, error_response(no_such_path(request)));
    }
}

}  // namespace helix::api
