#include "api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "api/access_log.h"
#include "api/error.h"
#include "api/guard.h"
#include "api/protocols/protocol.h"
#include "api/quota_gate.h"
#include "base/check.h"

namespace helix::api {
namespace {

using handle::Exchange;

constexpr OtherMethods kRefuse = OtherMethods::refuse;
constexpr OtherMethods kHide = OtherMethods::hide;
constexpr OtherMethods kNameTheOne = OtherMethods::name_the_one;
constexpr bool kCounted = true;

// Who may ask for which path is decided in api/guard.h; a path that is not opened there asks for a
// client's key.
constexpr std::array kRoutes = {
    Route{"POST", "/chat/completions", handle::chat, kNameTheOne, kCounted},
    Route{"POST", "/completions", handle::completion, kNameTheOne, kCounted},
    Route{"POST", "/embeddings", handle::embeddings, kNameTheOne, kCounted},
    Route{"POST", "/responses", handle::responses, kNameTheOne, kCounted},
    Route{"GET", "/responses/{id}", handle::get_response, kRefuse},
    Route{"DELETE", "/responses/{id}", handle::delete_response, kRefuse},
    Route{"POST", "/messages", handle::messages, kNameTheOne, kCounted},
    Route{"POST", "/messages/count_tokens", handle::message_tokens},
    Route{"POST", "/api/chat", handle::ollama_chat, kNameTheOne, kCounted},
    Route{"POST", "/api/generate", handle::ollama_generate, kNameTheOne, kCounted},
    Route{"POST", "/api/embed", handle::ollama_embed, kNameTheOne, kCounted},
    Route{"POST", "/api/embeddings", handle::ollama_embeddings, kNameTheOne, kCounted},
    Route{"GET", "/api/tags", handle::ollama_tags},
    Route{"GET", "/api/ps", handle::ollama_running},
    Route{"POST", "/api/show", handle::ollama_show},
    Route{"GET", "/api/version", handle::version},
    Route{"GET", "/models", handle::models},
    Route{"GET", "/models/{id...}", handle::model, kHide},
    Route{"POST", "/tokenize", handle::tokenize},
    Route{"POST", "/detokenize", handle::detokenize},

    Route{"POST", "/files", handle::upload_file, kRefuse},
    Route{"GET", "/files", handle::list_files, kRefuse},
    Route{"GET", "/files/{id}", handle::get_file, kRefuse},
    Route{"DELETE", "/files/{id}", handle::delete_file, kRefuse},
    Route{"GET", "/files/{id}/content", handle::download_file, kRefuse},
    Route{"POST", "/batches", handle::create_batch, kRefuse},
    Route{"GET", "/batches", handle::list_batches, kRefuse},
    Route{"GET", "/batches/{id}", handle::get_batch, kRefuse},
    Route{"POST", "/batches/{id}/cancel", handle::cancel_batch, kRefuse},

    Route{"GET", "/props", handle::props},
    Route{"GET", "/slots", handle::slots},

    Route{"GET", "/", handle::start_page, kHide},
    Route{"GET", "/health", handle::health},
    Route{"GET", "/health/ready", handle::ready},
    Route{"GET", "/health/live", handle::live},
    Route{"GET", "/metrics", handle::metrics},
    Route{"GET", "/version", handle::version},

    Route{"GET", "/helix/cluster", handle::cluster},
    Route{"GET", "/helix/nodes", handle::nodes},
    Route{"POST", "/helix/nodes/{call...}", handle::node_action, kHide},
    Route{"POST", "/helix/requests/{call...}", handle::request_action, kHide},
    Route{"GET", "/helix/join", handle::join, kHide},
    Route{"GET", "/helix/plan", handle::plan, kHide},
    Route{"GET", "/helix/plan.svg", handle::plan_picture, kHide},
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
    const std::optional<Passage> passage = let_pass(context, exchange);
    if (!passage) return;
    const net::HttpRequest& request = exchange->request();
    const std::string_view path = without_version(request.path);
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
