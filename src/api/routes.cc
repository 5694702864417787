#include "api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "api/access_log.h"
#include "api/body_fields.h"
#include "api/elsewhere.h"
#include "api/error.h"
#include "api/guard.h"
#include "api/protocols/protocol.h"
#include "api/quota_gate.h"
#include "api/web_page.h"
#include "base/check.h"

namespace helix::api {
namespace {

using handle::Exchange;

constexpr Route get(std::string_view path, handle::Handler* handler, std::string_view about) {
    return {"GET", path, handler, about};
}
constexpr Route post(std::string_view path, handle::Handler* handler, std::string_view about,
                     std::uint16_t body = 0) {
    return {"POST", path, handler, about, body};
}
constexpr Route remove(std::string_view path, handle::Handler* handler, std::string_view about) {
    return {"DELETE", path, handler, about};
}

// Who may ask for which path is decided in api/guard.h; a path that is not opened there asks for a
// client's key.
constexpr std::array kRoutes = {
    post("/chat/completions", handle::chat, "an answer to a conversation", body::kChat).counts(),
    post("/completions", handle::completion, "text that goes on from a prompt", body::kCompletions)
        .counts(),
    post("/embeddings", handle::embeddings, "embeddings of texts", body::kEmbeddings).counts(),
    post("/rerank", handle::rerank, "documents, the best for a query first", body::kRerank)
        .counts(),
    post("/v2/rerank", handle::rerank, "the same, where Cohere's clients ask for it", body::kRerank)
        .counts()
        .unversioned(),
    post("/score", handle::score, "how good documents are for queries", body::kScore).counts(),
    post("/responses", handle::responses, "an answer in the form of OpenAI's newer endpoint",
         body::kResponses)
        .counts(),
    get("/responses/{id}", handle::get_response, "a response that was kept").refuses_others(),
    remove("/responses/{id}", handle::delete_response, "forgets a response").refuses_others(),
    post("/messages", handle::messages, "an answer in Anthropic's form", body::kMessages).counts(),
    post("/messages/count_tokens", handle::message_tokens,
         "how many tokens the prompt of such a body has", body::kMessages),
    post("/api/chat", handle::ollama_chat, "an answer to a conversation in Ollama's form",
         body::kOllamaChat)
        .counts()
        .unversioned(),
    post("/api/generate", handle::ollama_generate, "an answer to a prompt in Ollama's form",
         body::kOllamaGenerate)
        .counts()
        .unversioned(),
    post("/api/embed", handle::ollama_embed, "embeddings in Ollama's form", body::kOllamaEmbed)
        .counts()
        .unversioned(),
    post("/api/embeddings", handle::ollama_embeddings,
         "one embedding, as older clients of Ollama ask for it", body::kOllamaSingle)
        .counts()
        .unversioned(),
    get("/api/tags", handle::ollama_tags, "the models, for clients of Ollama").unversioned(),
    get("/api/ps", handle::ollama_running, "the models that are loaded, for clients of Ollama")
        .unversioned(),
    post("/api/show", handle::ollama_show, "what is known of a model, for clients of Ollama",
         body::kOllamaShow)
        .unversioned(),
    get("/api/version", handle::version, "the version").unversioned(),
    get("/models", handle::models, "each model once, with max_model_len and its aliases"),
    get("/models/{id...}", handle::model, "one model, by its name or an alias").hides_others(),
    post("/tokenize", handle::tokenize, "the tokens of a text or a conversation", body::kTokenize)
        .unversioned(),
    post("/detokenize", handle::detokenize, "the text of tokens", body::kDetokenize).unversioned(),
    post("/files", handle::upload_file, "stores a file, sent as a form (multipart/form-data)")
        .refuses_others(),
    get("/files", handle::list_files, "the files that are stored").refuses_others(),
    get("/files/{id}", handle::get_file, "what is known of a file").refuses_others(),
    remove("/files/{id}", handle::delete_file, "forgets a file").refuses_others(),
    get("/files/{id}/content", handle::download_file, "a file's bytes").refuses_others(),
    post("/batches", handle::create_batch, "has the requests of a file answered", body::kBatch)
        .refuses_others(),
    get("/batches", handle::list_batches, "the batches, newest first").refuses_others(),
    get("/batches/{id}", handle::get_batch, "how far a batch is").refuses_others(),
    post("/batches/{id}/cancel", handle::cancel_batch, "ends a batch").refuses_others(),
    get("/props", handle::props, "what llama.cpp's web page asks of a server").unversioned(),
    get("/slots", handle::slots, "what is computed, as llama.cpp's server shows it").unversioned(),
    get("/", handle::start_page, "the page for browsers; for others, in text, where what is")
        .hides_others()
        .unversioned(),
    get("/assets/{name}", handle::page_asset, "the files that the page consists of")
        .hides_others()
        .unversioned(),
    get("/health", handle::health, "200 once a placement is in force, 503 before").unversioned(),
    get("/health/ready", handle::ready,
        "the same, and 503 while it stops or takes no more requests")
        .unversioned(),
    get("/health/live", handle::live, "200: the process answers").unversioned(),
    get("/metrics", handle::metrics, "what Prometheus collects").unversioned(),
    get("/openapi.json", handle::openapi, "routes and fields, for programs (OpenAPI 3.1)")
        .unversioned(),
    get("/version", handle::version, "the version").unversioned(),
    get("/helix/session", handle::session,
        "what who asks may do: role (none, view, chat, admin), and by which key")
        .unversioned(),
    post("/helix/session", handle::log_in,
         "logs in with a key; the answer is a cookie that stands for it")
        .unversioned(),
    remove("/helix/session", handle::log_out, "logs out").unversioned(),
    get("/helix/cluster", handle::cluster, "workers, requests and the placement in force")
        .unversioned(),
    get("/helix/events", handle::cluster_events,
        "the same, as server-sent events: all of it, then what changes; requests only with "
        "?requests=1")
        .unversioned()
        .follows(),
    get("/helix/history", handle::history,
        "the last hours, a sample every ten seconds; ?since=UNIX_SECONDS, ?format=csv")
        .unversioned(),
    get("/helix/models", handle::model_files,
        "the models that can be pulled from here, their sizes and the hashes of their content")
        .hides_others()
        .unversioned(),
    get("/helix/models/{file...}", handle::model_file,
        "NAME.gguf is the file of a model; parts of it can be asked for (Range)")
        .hides_others()
        .unversioned(),
    get("/helix/nodes", handle::nodes, "the machines; drained_away: drained ones that are not here")
        .unversioned(),
    post("/helix/nodes/{call...}", handle::node_action,
         "NAME/drain empties a machine, NAME/undrain ends that, NAME/remove forgets it")
        .hides_others()
        .unversioned(),
    post("/helix/requests/{call...}", handle::request_action,
         "ID/move has a running request go on elsewhere")
        .hides_others()
        .unversioned(),
    get("/helix/what-if", handle::machine_types, "the types of machines that can be added")
        .hides_others()
        .unversioned(),
    post("/helix/what-if", handle::what_if,
         "what changes of the machines would do, planned and simulated beside today", body::kWhatIf)
        .hides_others()
        .unversioned(),
    get("/helix/joining", handle::joining, "how another machine is added, and from where it can be")
        .hides_others()
        .unversioned(),
    post("/helix/keys", handle::worker_key,
         "makes a key for a machine of this name and lets it join; the answer is its only copy")
        .hides_others()
        .unversioned(),
    post("/helix/pairing", handle::start_pairing,
         "begins to let in a machine by a code: makes one, which is shown to whoever may make keys")
        .unversioned(),
    get("/helix/pairing", handle::pairing,
        "the code and how long it is valid, or who was let in by it; after a pause a new code")
        .unversioned(),
    remove("/helix/pairing", handle::stop_pairing, "ends pairing: the code is void").unversioned(),
    post("/helix/pairing/begin", handle::begin_pairing,
         "a machine that has been told the code begins an exchange (CPace)")
        .hides_others()
        .unversioned(),
    post("/helix/pairing/finish", handle::finish_pairing,
         "it proves that it knows the code, and is let in")
        .hides_others()
        .unversioned(),
    get("/helix/join", handle::join, "where workers connect").hides_others().unversioned(),
    get("/helix/plan", handle::plan, "the placement in force, as a page")
        .hides_others()
        .unversioned(),
    post("/helix/plan", handle::place, "puts another placement in force")
        .hides_others()
        .unversioned(),
    get("/helix/plan.svg", handle::plan_picture, "the placement in force, drawn")
        .hides_others()
        .unversioned(),
};

// What a path has in the places that a pattern leaves open.
struct Captured {
    std::array<std::string_view, 1> words;
    std::size_t count = 0;
};

std::optional<Captured> match(std::string_view pattern, std::string_view path) {
    Captured captured;
    while (true) {
        const std::size_t open = std::min(pattern.find('{'), pattern.size());
        if (path.substr(0, open) != pattern.substr(0, open)) return {};
        path.remove_prefix(open);
        pattern.remove_prefix(open);
        if (pattern.empty()) return path.empty() ? std::optional(captured) : std::nullopt;
        const std::size_t close = pattern.find('}');
        CHECK(close != std::string_view::npos && captured.count < captured.words.size());
        const bool rest = pattern.substr(0, close).ends_with("...");
        const std::string_view word = rest ? path : path.substr(0, path.find('/'));
        if (word.empty() && !rest) return {};
        captured.words[captured.count++] = word;
        path.remove_prefix(word.size());
        pattern.remove_prefix(close + 1);
    }
}

bool is_job_path(std::string_view path) {
    for (const std::string_view root : {"/files", "/batches"}) {
        if (path == root || (path.starts_with(root) && path[root.size()] == '/')) return true;
    }
    return false;
}

// Every request that comes over the network goes through here, whatever its route.
std::optional<Passage> let_pass(ApiContext& context, const Exchange& exchange) {
    Passage passage = context.guard->check(context.options.clock(), exchange->request());
    exchange->allow_origin(passage.allow_origin);
    const auto response = std::exchange(passage.response, std::nullopt);
    log_end(context.access_log.get(), *exchange, passage, context.options.clock, !response);
    if (!response) return passage;
    context.respond(*exchange, *response);
    return {};
}

// found: a route of this path that takes another method.
void refuse_method(ApiContext& context, const Exchange& exchange, const Route& found) {
    const net::HttpRequest& request = exchange->request();
    if (found.others == OtherMethods::hide) return handle::nothing(context, exchange);
    ApiError error = {405,
                      fmt::format("{} does not take {}.", request.path, request.method),
                      "invalid_request_error",
                      "",
                      "method_not_allowed",
                      0};
    if (found.others == OtherMethods::refuse) {
        return context.refuse(*exchange, error);
    }
    error.message = fmt::format("{} takes {}, not {}.", request.path, found.method, request.method);
    net::HttpResponse response = error_response(request, error);
    response.headers.emplace_back("allow", std::string(found.method) + ", OPTIONS");
    context.respond(*exchange, response);
}

}  // namespace

std::span<const Route> all_routes() {
    return kRoutes;
}

void route_trusted(ApiContext& context, const Exchange& exchange) {
    const std::string& path = exchange->request().path;
    if (path == "/v1/embeddings") {
        return handle::embed(context, exchange, EmbeddingForm::openai, kBatchClient);
    }
    const bool chat_endpoint = path == "/v1/chat/completions";
    CHECK(chat_endpoint || path == "/v1/completions");
    handle::complete(context, exchange, chat_endpoint ? Endpoint::chat : Endpoint::completions,
                     kBatchClient);
}

void route(ApiContext& context, const Exchange& exchange) {
    ++context.metrics.http_requests;
    const std::string& request_id = exchange->request().request_id;
    for (auto& [name, value] : extra_headers(protocol_of(exchange->request().path), request_id)) {
        exchange->add_header(name, value);
    }
    const net::HttpRequest& request = exchange->request();
    const std::string_view path = without_version(request.path);
    for (auto& [name, value] : guarding_headers(path)) {
        exchange->add_header(std::move(name), std::move(value));
    }
    const std::optional<Passage> passage = let_pass(context, exchange);
    if (!passage) return;
    if (context.options.coordinator_url && is_elsewhere(path)) {
        return point_elsewhere(context, exchange);
    }
    if (context.jobs == nullptr && is_job_path(path)) {
        return handle::jobs_are_off(context, exchange);
    }
    const std::string_view method =
        request.method == "HEAD" ? "GET" : std::string_view(request.method);
    const Route* other = nullptr;
    for (const Route& candidate : kRoutes) {
        const std::optional<Captured> captured = match(candidate.path, path);
        if (!captured) continue;
        if (candidate.method == method) {
            if (candidate.counted && context.tracer)
                context.tracer->begin(*exchange, candidate.path);
            if (candidate.counted && !within_quota(context, exchange, *passage)) return;
            const handle::Words words(captured->words.data(), captured->count);
            return candidate.handler(context, exchange, words);
        }
        other = &candidate;
    }
    if (other != nullptr) return refuse_method(context, exchange, *other);
    handle::nothing(context, exchange);
}

}  // namespace helix::api
