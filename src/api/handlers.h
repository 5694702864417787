#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/completion_request.h"
#include "api/context.h"
#include "api/embedding/embedding_request.h"
#include "api/heavy_work.h"
#include "api/preparation.h"
#include "net/http_server.h"

// What each route does with a request that the guard let pass: answers it, or begins to. On the
// HTTP server's thread. Which path leads where: the table in api/routes.cc.

namespace helix::api::handle {

using Exchange = std::shared_ptr<net::HttpExchange>;
// The parts of the path that its pattern leaves open, in order.
using Words = std::span<const std::string_view>;
using Handler = void(ApiContext& context, const Exchange& exchange, Words words);

// Reads a small body; where it is none, that is answered, and the return value is false.
bool read_small_body(ApiContext& context, const Exchange& exchange, nlohmann::ordered_json& body);
// There is nothing at this path.
void nothing(ApiContext& context, const Exchange& exchange);

// OpenAI's API.
Handler chat;
Handler completion;
Handler responses;
Handler embeddings;
Handler rerank;
Handler score;
Handler get_response;  // its id
Handler delete_response;
Handler messages;        // Anthropic's,
Handler message_tokens;  // and its count of a prompt's tokens
Handler ollama_chat;     // Ollama's, as those that follow
Handler ollama_generate;
Handler ollama_embed;
Handler ollama_embeddings;
Handler ollama_tags;
Handler ollama_running;
Handler ollama_show;
Handler models;
Handler model;  // its id
Handler tokenize;
Handler detokenize;
// The same as chat and completion for a client that is named by the caller.
void complete(ApiContext& context, const Exchange& exchange, Endpoint endpoint,
              const std::string& client);
// The same for embeddings.
void embed(ApiContext& context, const Exchange& exchange, EmbeddingForm form,
           const std::string& client);
// Prepares a completion, which takes long, and answers it, or says what is wrong with it.
using Prepare = std::function<std::optional<ApiError>(HeavyInput& input, PreparedCompletion&)>;
void prepare_and_complete(ApiContext& context, const Exchange& exchange, const std::string& client,
                          Prepare prepare);

// The models as files, for those who want to have them.
Handler model_files;
Handler model_file;  // its name and ".gguf"

// llama.cpp's: the first model and how it is served, and what runs.
Handler props;
Handler slots;

// How the server is.
Handler openapi;
Handler health;
Handler ready;
Handler live;
Handler metrics;
Handler version;

// The page for browsers, what it consists of, and who has logged in on it.
Handler start_page;
Handler page_asset;  // its name
Handler session;
Handler log_in;
Handler log_out;

// The cluster, and what may be done with it.
Handler cluster;
Handler cluster_events;
Handler history;
Handler nodes;
Handler node_action;     // "NAME/drain"
Handler request_action;  // "ID/move"
Handler join;
Handler plan;
Handler plan_picture;
Handler what_if;
Handler machine_types;
Handler place;
Handler joining;
Handler worker_key;
Handler start_pairing;
Handler pairing;
Handler stop_pairing;
Handler begin_pairing;
Handler finish_pairing;

// Files and batches, where the server keeps any.
Handler upload_file;
Handler list_files;
Handler get_file;  // its id, as of the others of one file
Handler delete_file;
Handler download_file;
Handler create_batch;
Handler list_batches;
Handler get_batch;  // its id
Handler cancel_batch;
// Where it keeps none.
void jobs_are_off(ApiContext& context, const Exchange& exchange);

}  // namespace helix::api::handle
