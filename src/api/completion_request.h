#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/error.h"
#include "api/limits.h"
#include "api/text_codec.h"
#include "core/coordinator/beam_search.h"
#include "spec/sampling_params.h"

// The bodies of /v1/chat/completions and /v1/completions, parsed and checked. Those of other
// endpoints are written anew as one of these: api/protocols/read_request.h.

namespace helix::api {

enum class Endpoint {
    chat,
    completions,
    messages,        // Anthropic's
    message_tokens,  // Anthropic's count of a prompt's tokens; there is no answer
    ollama_chat,
    ollama_generate,
    responses  // OpenAI's newer endpoint
};

// A prompt of /v1/completions.
using PlainPrompt = std::variant<std::string, std::vector<Token>>;

struct CompletionRequest {
    Endpoint endpoint = Endpoint::chat;
    std::string model;  // "" = whatever is served

    // chat
    nlohmann::ordered_json messages;  // as ChatPrompt wants them
    nlohmann::ordered_json tools;     // null = none
    ToolChoice tool_choice;
    std::int32_t max_thought_tokens = -1;  // of a thought before the answer; -1 = any number
    nlohmann::ordered_json kwargs;         // chat_template_kwargs; null = none
    bool add_generation_prompt = true;
    // There is no prompt, and no answer: the client only wants the model to be there.
    bool nothing_asked = false;
    // What the answer repeats of the request (api/protocols/responses_request.h); "" = nothing.
    std::string settings = {};

    // completions: n choices for each
    std::vector<PlainPrompt> prompts;
    std::string suffix = {};  // what comes behind the answer, which fills in; "" = nothing
    bool echo = false;
    bool prompt_only = false;  // echoed, and nothing after it is shown; max_tokens is 1

    std::int32_t n = 1;                    // choices for each prompt
    std::int32_t best_of = 1;              // at least n; this many are made and the n best shown
    std::optional<core::BeamSearch> beam;  // best_of is its width
    spec::SamplingParams sampling;         // without the seed
    std::optional<std::uint64_t> seed;     // absent = any
    std::int32_t max_tokens = 0;           // 0 = as many as the context allows
    std::int32_t min_tokens = 0;
    std::vector<std::string> stop;
    std::vector<Token> stop_token_ids;
    bool ignore_eos = false;
    bool skip_special_tokens = true;
    std::int32_t priority = 0;  // higher first, as in core (vLLM's field means the opposite)

    // Speculation: it changes how fast tokens come, never which.
    std::int32_t max_draft_tokens = -1;  // tokens to draft ahead at most; -1 = the server decides
    std::string prediction;              // what the answer may be like; "" = none given

    bool stream = false;
    bool include_usage = false;
    bool continuous_usage = false;  // usage in every chunk

    bool wants_logprobs() const { return sampling.n_logprobs >= 0; }
    bool wants_prompt_logprobs() const { return echo && wants_logprobs(); }
    // The number of choices that are made for each prompt, shown or not.
    std::int32_t made() const { return beam ? n : best_of; }
};

// Parses a JSON object nested at most 64 deep, or returns the error.
std::optional<ApiError> parse_json_object(std::string_view body, nlohmann::ordered_json& object);

// The text of a body's field "model", by which its limits are found before it is read; "" if there
// is none.
std::string model_named_in(const nlohmann::ordered_json& body);

// Reads a parsed body of chat or completions, of which it takes the large parts. The error names
// the field; request is usable only when there is none.
std::optional<ApiError> read_completion_request(Endpoint endpoint, nlohmann::ordered_json& body,
                                                const RequestLimits& limits,
                                                CompletionRequest& request);

// Checks messages and brings them into the form that ChatPrompt wants.
std::optional<ApiError> normalise_messages(nlohmann::ordered_json& messages,
                                           const RequestLimits& limits);

class FieldReader;
// A field with one or several prompts: a string, tokens, or an array of either.
struct PromptField {
    const char* name;
    std::size_t most;  // prompts, and what that limit is called
    const char* limit;
};
void read_prompts(FieldReader& fields, const PromptField& field, const RequestLimits& limits,
                  std::vector<PlainPrompt>& prompts);

// Reads the name of a model, "" when there is none.
void read_model_name(FieldReader& fields, const RequestLimits& limits, std::string& name);

// Reads metadata as text, "null" when there is none. The error names its limits.
void read_metadata(FieldReader& fields, const RequestLimits& limits, std::string& text);

}  // namespace helix::api
