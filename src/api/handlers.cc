#include "api/handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/answer_key.h"
#include "api/cluster_state.h"
#include "api/completion/completion.h"
#include "api/completion_request.h"
#include "api/error.h"
#include "api/field_reader.h"
#include "api/heavy_work.h"
#include "api/json_text.h"
#include "api/long_answer.h"
#include "api/metrics.h"
#include "api/nodes.h"
#include "api/openapi.h"
#include "api/preparation.h"
#include "api/tools_request.h"
#include "api/web_page.h"
#include "api/writers/ollama_shape.h"
#include "base/check.h"
#include "base/hash.h"
#include "net/multipart.h"
#include "spec/catalogue.h"

namespace helix::api::handle {
namespace {

using nlohmann::json;                 // of answers
using Json = nlohmann::ordered_json;  // of requests: templates show the order

constexpr const char* kPlainText = "text/plain; charset=utf-8";

net::HttpResponse loading() {
    net::HttpResponse response;
    response.status = 503;
    // llama-server's shape, which tools that wait for a model look for.
    response.body =
        R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error","param":null}})";
    response.headers = {{"retry-after", "1"}};
    return response;
}

// id is the model's name or one of its aliases.
json model_json(const ModelEntry& entry, const std::string& id) {
    const ModelInfo& model = entry.info;
    return {{"id", id},
            {"object", "model"},
            {"created", model.created},
            {"owned_by", "helix"},
            {"root", model.name},
            {"aliases", model.aliases},
            {"max_model_len", model.context_length},
            {"meta",
             {{"n_ctx_train", model.context_length},
              {"n_vocab", entry.codec->vocab_size()},
              {"n_embd", model.hidden},
              {"n_layer", model.n_layers},
              {"n_params", model.n_params},
              {"size", model.size_bytes}}},
            {"architecture", {{"input_modalities", {"text"}}, {"output_modalities", {"text"}}}}};
}

// Finds the model that a body names, or the first if it names none.
std::optional<ApiError> find_model(const ApiContext& context, const Json& body,
                                   const ModelEntry*& model) {
    FieldReader fields(body);
    std::string name;
    read_model_name(fields, context.options.request_limits, name);
    if (fields.failed()) return fields.error();
    model = context.models.find(name);
    if (model == nullptr) return model_not_found(name);
    return {};
}

// vLLM's body {"prompt" or "messages", "add_special_tokens"}, or llama-server's
// {"content","add_special"}.
std::optional<ApiError> tokenize_body(const ApiContext& context, Json& body,
                                      const ModelEntry*& model, std::vector<Token>& tokens) {
    if (auto error = find_model(context, body, model)) return error;
    FieldReader fields(body);
    bool chat_prompt = true;
    fields.boolean(field::kAddGenerationPrompt, chat_prompt);
    bool prompt_special = true;
    bool content_special = false;
    std::string prompt_text;
    std::string content;
    fields.boolean(field::kAddSpecialTokens, prompt_special);
    fields.boolean(field::kAddSpecial, content_special);
    fields.text(field::kTokenizePrompt, prompt_text);
    fields.text(field::kContent, content);
    const Json tools = read_tool_list(fields, context.options.request_limits);
    if (fields.failed()) return fields.error();
    if (fields.find(field::kMessages) != nullptr) {
        if (auto error = normalise_messages(body["messages"], context.options.request_limits))
            return error;
        ChatPrompt prompt;
        prompt.messages = &body["messages"];
        prompt.add_generation_prompt = chat_prompt;
        if (!tools.is_null()) prompt.tools = &tools;
        auto encoded = model->codec->encode_chat(prompt);
        if (!encoded.ok()) return from_error(encoded.error());
        tokens = std::move(encoded).value();
        return {};
    }
    const bool vllm = fields.find(field::kTokenizePrompt) != nullptr;
    if (!vllm && fields.find(field::kContent) == nullptr) {
        return bad_field("prompt", "'prompt': one of prompt, content and messages is required");
    }
    tokens = vllm ? model->codec->encode(prompt_text, prompt_special)
                  : model->codec->encode(content, content_special);
    return {};
}

std::optional<ApiError> read_detokenize(const ApiContext& context, Json& body,
                                        const ModelEntry*& model, std::vector<Token>& tokens) {
    if (auto error = find_model(context, body, model)) return error;
    const std::int32_t vocab = model->codec->vocab_size();
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

using TokenAnswer = net::HttpResponse (*)(const ApiContext&, const HeavyInput&);

net::HttpResponse tokenized(const ApiContext& context, const HeavyInput& input) {
    Json body;
    const ModelEntry* model = nullptr;
    std::vector<Token> tokens;
    auto error = read_body(context.options.request_limits, input.body, *input.share, body);
    if (!error) error = tokenize_body(context, body, model, tokens);
    if (error) return error_response(*error);
    net::HttpResponse response;
    response.body = fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[{}]}}",
                                tokens.size(), model->info.context_length, fmt::join(tokens, ","));
    return response;
}

net::HttpResponse detokenized(const ApiContext& context, const HeavyInput& input) {
    Json body;
    const ModelEntry* model = nullptr;
    std::vector<Token> tokens;
    auto error = read_body(context.options.request_limits, input.body, *input.share, body);
    if (!error) error = read_detokenize(context, body, model, tokens);
    if (error) return error_response(*error);
    std::string text;
    append_json_string(text, model->codec->decode(tokens, false));
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

// What the program around the API makes; heavy: takes longer than to write down what is known.
void page(ApiContext& context, const Exchange& exchange, const char* content_type,
          const std::function<std::string()>& body, bool heavy) {
    if (!body) return nothing(context, exchange);
    const auto answer = [content_type, &body] {
        net::HttpResponse response;
        response.content_type = content_type;
        response.body = body();
        return response;
    };
    if (!heavy) return context.respond(*exchange, answer());
    run_heavy(
        context, exchange, client_of(context, exchange->request()),
        [c = &context, exchange, answer](const HeavyInput&) {
            return Then([c, exchange, response = answer()] { c->respond(*exchange, response); });
        });
}

// For clients of Ollama, which ask for nothing so that a model is loaded.
void answer_loaded(ApiContext& context, const Exchange& exchange,
                   const PreparedCompletion& prepared) {
    const CompletionRequest& request = prepared.request;
    const AnswerHead head{
        .id = {},
        .created = context.options.unix_time(),
        .model = request.model.empty() ? prepared.model->info.name : request.model,
        .request_id = exchange->request().request_id};
    const auto form =
        request.endpoint == Endpoint::ollama_chat ? OllamaForm::chat : OllamaForm::generate;
    net::HttpResponse response;
    response.body = OllamaObjects(form, head).loaded();
    context.respond(*exchange, response);
}

}  // namespace

bool read_small_body(ApiContext& context, const Exchange& exchange, Json& body) {
    constexpr std::size_t kMostBytes = std::size_t{64} << 10U;
    const std::string_view text = exchange->request().body_text();
    auto error = text.size() <= kMostBytes
                     ? parse_json_object(text, body)
                     : std::optional(bad_field(
                           "", fmt::format("The body is longer than {} bytes.", kMostBytes)));
    if (error) context.refuse(*exchange, *error);
    return !error;
}

void nothing(ApiContext& context, const Exchange& exchange) {
    const net::HttpRequest& request = exchange->request();
    context.refuse(*exchange, {404, fmt::format("There is no {} {}.", request.method, request.path),
                               "invalid_request_error", "", "not_found", 0});
}

void health(ApiContext& context, const Exchange& exchange, Words) {
    const auto models = context.models.all();
    const bool serving = std::all_of(models.begin(), models.end(), [](const ModelEntry& model) {
        return model.service->view().serving;
    });
    context.respond(*exchange, serving ? json_response({{"status", "ok"}}) : loading());
}

void ready(ApiContext& context, const Exchange& exchange, Words) {
    if (context.draining) {
        context.refuse(*exchange, unavailable("The server is draining.", 5));
        return;
    }
    if (context.budget.is_full()) {
        context.refuse(*exchange, unavailable("The requests that are not over hold all that they "
                                              "may: no more are taken.",
                                              5));
        return;
    }
    for (const ModelEntry& model : context.models.all()) {
        const std::string why = model.service->why_not_ready();
        if (!why.empty()) return context.refuse(*exchange, unavailable(why, 5));
    }
    health(context, exchange, {});
}

void live(ApiContext& context, const Exchange& exchange, Words) {
    context.respond(*exchange, json_response({{"status", "ok"}}));
}

void version(ApiContext& context, const Exchange& exchange, Words) {
    context.respond(*exchange, json_response({{"version", context.options.version}}));
}

void openapi(ApiContext& context, const Exchange& exchange, Words) {
    net::HttpResponse response;
    response.content_type = "application/json";
    response.body = openapi_document(context.options.version);
    context.respond(*exchange, response);
}

void metrics(ApiContext& context, const Exchange& exchange, Words) {
    net::HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (context.tracer) context.metrics.spans = context.tracer->counts();
    std::vector<ModelView> views;
    for (const ModelEntry& model : context.models.all()) {
        views.push_back({model.info.name, model.service->view()});
    }
    response.body = metrics_text(context.metrics, views,
                                 {context.connections(), context.heavy.size(),
                                  context.budget.requests(), context.budget.bytes()},
                                 context.quotas.usage());
    context.respond(*exchange, response);
}

void cluster(ApiContext& context, const Exchange& exchange, Words) {
    const ModelInfo& model = context.models.first().info;
    json body = cluster_state(context.cluster().view(), context.cluster().plan_figures(),
                              {model.name, model.n_layers});
    body["requests"] = context.log.to_json();
    context.respond(*exchange, json_response(body));
}

void cluster_events(ApiContext& context, const Exchange& exchange, Words) {
    context.feed.add(context, exchange);
}

// ?since=SECONDS of Unix time: only what is newer; ?format=csv: the samples as a table.
void history(ApiContext& context, const Exchange& exchange, Words) {
    const std::string& query = exchange->request().query;
    const std::string since = net::query_value(query, "since");
    double from = 0;
    const auto read = std::from_chars(since.data(), since.data() + since.size(), from);
    if (!since.empty() && (read.ec != std::errc() || read.ptr != since.data() + since.size())) {
        return context.refuse(*exchange, bad_field("since", "since must be seconds of Unix time."));
    }
    const std::string format = net::query_value(query, "format");
    if (format.empty() || format == "json") {
        return context.respond(*exchange, json_response(context.history.to_json(from)));
    }
    if (format != "csv") {
        return context.refuse(*exchange, bad_field("format", "format must be json or csv."));
    }
    net::HttpResponse response;
    response.content_type = "text/csv; charset=utf-8";
    response.headers = {{"content-disposition", "attachment; filename=\"helix-history.csv\""}};
    response.body = context.history.to_csv(from);
    context.respond(*exchange, response);
}

void nodes(ApiContext& context, const Exchange& exchange, Words) {
    context.respond(*exchange, json_response(nodes_json(context.cluster().view())));
}

// Programs, which do not ask for HTML by name, get text.
void start_page(ApiContext& context, const Exchange& exchange, Words) {
    if (wants_page(exchange->request())) {
        const PageFile* index = find_page_file("/index.html");
        CHECK(index != nullptr);
        return context.respond(*exchange, page_response(*index, exchange->request()));
    }
    std::vector<std::string_view> names;
    for (const ModelEntry& model : context.models.all()) names.emplace_back(model.info.name);
    net::HttpResponse response;
    response.content_type = kPlainText;
    response.headers = {{"vary", "Accept, Accept-Encoding"}};
    response.body = fmt::format(
        "Helix serves {} here: OpenAI's API under /v1, like POST /v1/chat/completions\n\n"
        "/                 in a browser: a page to chat on, and to watch the cluster\n"
        "/helix/plan       which layers are on which machine; /helix/plan.svg draws it\n"
        "/helix/cluster    workers, KV memory, recent requests and their pipelines, as JSON\n"
        "/helix/events     the same without requests, as server-sent events while it changes;\n"
        "                  ?requests=1: with them\n"
        "/helix/history    the last hours: throughput, latencies, memory, events; ?format=csv\n"
        "/metrics          for Prometheus\n"
        "/health/ready     may requests come?\n",
        fmt::join(names, ", "));
    context.respond(*exchange, response);
}

void page_asset(ApiContext& context, const Exchange& exchange, Words words) {
    const PageFile* file = find_page_file("/assets/" + std::string(words[0]));
    if (file == nullptr) return nothing(context, exchange);
    context.respond(*exchange, page_response(*file, exchange->request()));
}

void join(ApiContext& context, const Exchange& exchange, Words) {
    page(context, exchange, "application/json", context.options.pages.join, false);
}

void plan(ApiContext& context, const Exchange& exchange, Words) {
    page(context, exchange, kPlainText, context.options.pages.plan, true);
}

void plan_picture(ApiContext& context, const Exchange& exchange, Words) {
    page(context, exchange, "image/svg+xml", context.options.pages.plan_svg, true);
}

void what_if(ApiContext& context, const Exchange& exchange, Words) {
    if (!context.options.pages.what_if) return nothing(context, exchange);
    WhatIfQuestion question;
    if (const auto error = read_what_if(exchange->request().body_text(), question)) {
        return context.refuse(*exchange, *error);
    }
    context.what_ifs.ask(context, exchange, std::move(question));
}

// GET /helix/what-if: what can be added.
void machine_types(ApiContext& context, const Exchange& exchange, Words) {
    if (!context.options.pages.what_if) return nothing(context, exchange);
    json types = json::array();
    for (const spec::MachineType& type : spec::machine_catalogue()) {
        types.push_back({{"name", type.name},
                         {"kind", spec::to_string(type.kind)},
                         {"memory_bytes", type.memory_bytes},
                         {"usd_per_hour", type.price_usd_per_hour}});
    }
    context.respond(*exchange, json_response({{"machine_types", std::move(types)}}));
}

// POST /helix/plan: accepted; the cluster view tells when it is in force.
void place(ApiContext& context, const Exchange& exchange, Words) {
    const auto refuse = [&](const std::string& message) {
        context.refuse(*exchange, bad_field("layers", "'layers': " + message));
    };
    Json body;
    if (!read_small_body(context, exchange, body)) return;
    const auto layers = body.find("layers");
    if (layers == body.end() || !layers->is_object() || layers->empty()) {
        return refuse("expected an object with a machine's name for each [first, end)");
    }
    const core::ClusterView view = context.cluster().view();
    const std::int32_t n_layers = context.models.first().info.n_layers;
    std::map<std::string, spec::LayerRange> wanted;
    std::vector<bool> held(static_cast<std::size_t>(n_layers));
    for (const auto& [name, range] : layers->items()) {
        const core::WorkerView* worker = find_node(view, name);
        if (worker == nullptr) return refuse(fmt::format("there is no machine \"{}\"", name));
        if (worker->draining) return refuse(fmt::format("\"{}\" is drained", name));
        const auto end_of = [&, r = &range](std::size_t i) {
            return r->is_array() && r->size() == 2 ? as_integer((*r)[i]) : std::nullopt;
        };
        const auto begin = end_of(0);
        const auto end = end_of(1);
        if (!begin || !end || *begin < 0 || *begin >= *end || *end > n_layers) {
            return refuse(fmt::format(
                "expected two whole numbers for \"{}\", 0 <= first < end <= {}", name, n_layers));
        }
        wanted[name] = {static_cast<std::int32_t>(*begin), static_cast<std::int32_t>(*end)};
        for (std::int64_t l = *begin; l < *end; ++l) held[static_cast<std::size_t>(l)] = true;
    }
    const auto hole = std::find(held.begin(), held.end(), false);
    if (hole != held.end()) {
        return refuse(fmt::format("layer {} is on no machine", hole - held.begin()));
    }
    const base::Status placed = context.cluster().place(wanted);
    if (!placed.ok()) return context.refuse(*exchange, from_error(placed.error()));
    net::HttpResponse response =
        json_response({{"machines", wanted.size()}, {"epoch", view.epoch}});
    response.status = 202;
    context.respond(*exchange, response);
}

void joining(ApiContext& context, const Exchange& exchange, Words) {
    page(context, exchange, "application/json", context.options.pages.joining, false);
}

// POST /helix/keys: the answer is the only copy of the key.
void worker_key(ApiContext& context, const Exchange& exchange, Words) {
    if (!context.options.pages.worker_key) return nothing(context, exchange);
    Json body;
    if (!read_small_body(context, exchange, body)) return;
    const auto name = body.find("name");
    if (name == body.end() || !name->is_string()) {
        return context.refuse(*exchange, bad_field("name", "'name': expected the machine's name"));
    }
    const auto made = context.options.pages.worker_key(name->get<std::string>());
    if (!made.ok()) return context.refuse(*exchange, from_error(made.error()));
    net::HttpResponse response;
    response.body = *made;
    response.headers = {{"cache-control", "no-store"}};
    context.respond(*exchange, response);
}

// POST /helix/nodes/NAME/ACTION: accepted; GET /helix/nodes tells how it goes.
void node_action(ApiContext& context, const Exchange& exchange, Words words) {
    const auto refuse = [&](const std::string& message) {
        context.respond(
            *exchange, error_response({404, message, "invalid_request_error", "", "not_found", 0}));
    };
    const auto call = parse_node_call(words[0]);
    if (!call) return refuse("Expected /helix/nodes/NAME/drain, undrain or remove.");
    const core::ClusterView view = context.cluster().view();
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
    context.cluster().drain(*event);
    net::HttpResponse response = json_response(answer);
    response.status = 202;
    context.respond(*exchange, response);
}

// POST /helix/requests/ID/move: accepted; the cluster view tells what came of it.
void request_action(ApiContext& context, const Exchange& exchange, Words words) {
    constexpr std::string_view kMove = "/move";
    const std::string_view rest = words[0];
    const std::string_view id = rest.substr(0, rest.find('/'));
    const std::vector<ServiceRequest> found = context.log.find(id);
    if (rest.substr(id.size()) != kMove || found.empty()) {
        const std::string message =
            rest.substr(id.size()) != kMove
                ? "Expected /helix/requests/ID/move."
                : fmt::format("There is no request \"{}\" among the last ones.", id);
        return context.respond(
            *exchange, error_response({404, message, "invalid_request_error", "", "not_found", 0}));
    }
    for (const ServiceRequest& request : found) request.service->move(request.id);
    net::HttpResponse response = json_response({{"id", id}, {"action", "move"}});
    response.status = 202;
    context.respond(*exchange, response);
}

void models(ApiContext& context, const Exchange& exchange, Words) {
    json data = json::array();
    for (const ModelEntry& entry : context.models.all()) {
        data.push_back(model_json(entry, entry.info.name));
    }
    context.respond(*exchange, json_response({{"object", "list"}, {"data", std::move(data)}}));
}

void model(ApiContext& context, const Exchange& exchange, Words words) {
    const std::string id(words[0]);
    if (id.empty()) return nothing(context, exchange);
    const ModelEntry* entry = context.models.find(id);
    context.respond(*exchange, entry != nullptr ? json_response(model_json(*entry, id))
                                                : error_response(model_not_found(id)));
}

void prepare_and_complete(ApiContext& context, const Exchange& exchange, const std::string& client,
                          Prepare prepare) {
    if (context.draining) {
        return context.refuse(*exchange, unavailable("The server is shutting down.", 5));
    }
    AnswerKey key;
    if (const auto error = read_answer_key(exchange->request(), key)) {
        return context.refuse(*exchange, *error);
    }
    run_heavy(context, exchange, client,
              [c = &context, exchange, key = std::move(key),
               prepare = std::move(prepare)](HeavyInput input) {
                  base::Hash128 body;
                  if (!key.key.empty()) body = base::hash128(std::as_bytes(std::span(input.body)));
                  auto prepared = std::make_shared<PreparedCompletion>();
                  prepared->share = std::move(input.share);
                  auto error = prepare(input, *prepared);
                  if (!error && !key.key.empty()) error = apply_answer_key(key, body, *prepared);
                  if (error) *prepared = {};  // here, where it keeps nobody waiting
                  return Then([c, exchange, prepared, error = std::move(error)] {
                      if (error) return c->refuse(*exchange, *error);
                      if (prepared->request.nothing_asked) {
                          return answer_loaded(*c, exchange, *prepared);
                      }
                      std::make_shared<Completion>(*c, exchange, std::move(*prepared))->start();
                  });
              });
}

void complete(ApiContext& context, const Exchange& exchange, Endpoint endpoint,
              const std::string& client) {
    prepare_and_complete(context, exchange, client,
                         [c = &context, endpoint](HeavyInput& input, PreparedCompletion& prepared) {
                             return prepare_completion(c->options.request_limits, c->models,
                                                       endpoint, std::move(input.body),
                                                       *input.dropped, prepared);
                         });
}

void chat(ApiContext& context, const Exchange& exchange, Words) {
    complete(context, exchange, Endpoint::chat, client_of(context, exchange->request()));
}

void completion(ApiContext& context, const Exchange& exchange, Words) {
    complete(context, exchange, Endpoint::completions, client_of(context, exchange->request()));
}

void messages(ApiContext& context, const Exchange& exchange, Words) {
    complete(context, exchange, Endpoint::messages, client_of(context, exchange->request()));
}

void message_tokens(ApiContext& context, const Exchange& exchange, Words) {
    run_heavy(context, exchange, client_of(context, exchange->request()),
              [c = &context, exchange](HeavyInput input) {
                  PreparedCompletion prepared;
                  prepared.share = std::move(input.share);
                  auto error = prepare_completion(c->options.request_limits, c->models,
                                                  Endpoint::message_tokens, std::move(input.body),
                                                  *input.dropped, prepared);
                  const std::size_t tokens = error ? 0 : prepared.prompts.front().size();
                  return Then([c, exchange, tokens, error = std::move(error)] {
                      if (error) return c->refuse(*exchange, *error);
                      c->respond(*exchange, json_response({{"input_tokens", tokens}}));
                  });
              });
}

void ollama_chat(ApiContext& context, const Exchange& exchange, Words) {
    complete(context, exchange, Endpoint::ollama_chat, client_of(context, exchange->request()));
}

void ollama_generate(ApiContext& context, const Exchange& exchange, Words) {
    complete(context, exchange, Endpoint::ollama_generate, client_of(context, exchange->request()));
}

void tokenize(ApiContext& context, const Exchange& exchange, Words) {
    on_pool(context, exchange, tokenized);
}

void detokenize(ApiContext& context, const Exchange& exchange, Words) {
    on_pool(context, exchange, detokenized);
}

}  // namespace helix::api::handle
