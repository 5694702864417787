#include "api/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/protocols/anthropic_request.h"
#include "api/protocols/read_request.h"

namespace helix::api {
namespace {

// A value of a parsed body takes at most this many bytes besides its text: for itself, for its
// share of an array that grows by doubling, and for a string's or container's own block.
constexpr std::int64_t kJsonValueBytes = 96;
// Messages exist three times: as they came, as the template gets them, and as the template's own
// values.
constexpr std::int64_t kChatCopies = 3;
// As many tokens as a marker may take, and blanks behind it.
constexpr std::size_t kTailTokens = 32;
// What the server keeps of a choice, and writes of it in its log.
constexpr std::int64_t kChoiceBytes = 2048;

const char* prompt_field(Endpoint endpoint) {
    const bool one = endpoint == Endpoint::completions || endpoint == Endpoint::ollama_generate;
    if (endpoint == Endpoint::responses) return "input";
    return one ? "prompt" : "messages";
}

std::optional<ApiError> check_length(const ModelInfo& model, const CompletionRequest& request,
                                     std::size_t prompt_tokens) {
    const char* field = prompt_field(request.endpoint);
    if (prompt_tokens == 0) return bad_field(field, "The prompt is empty.");
    if (request.endpoint == Endpoint::message_tokens) return {};
    const auto context = static_cast<std::int64_t>(model.context_length);
    const auto prompt = static_cast<std::int64_t>(prompt_tokens);
    const std::int64_t wanted = std::max<std::int64_t>(request.max_tokens, 1);
    if (prompt + wanted <= context) return {};
    if (request.endpoint == Endpoint::messages) return anthropic_too_long(context, prompt, wanted);
    ApiError error = bad_field(
        field,
        fmt::format("This model's maximum context length is {} tokens, but {} were asked for ({} "
                    "in the {}, {} in the completion). Please shorten one of them.",
                    context, prompt + wanted, prompt, field, wanted));
    error.code = "context_length_exceeded";
    return error;
}

ApiError cannot_fill_in() {
    return bad_field("suffix",
                     "'suffix': this model was not made to fill in: its vocabulary has no "
                     "tokens for prefix, suffix and middle");
}

class Preparation {
  public:
    Preparation(const RequestLimits& limits, const ModelRegistry& models,
                const std::atomic<bool>& dropped, PreparedCompletion& out)
        : limits_(limits), models_(models), dropped_(dropped), out_(out) {}

    std::optional<ApiError> run(Endpoint endpoint, std::string body) {
        if (auto error = read(endpoint, std::move(body))) return error;
        if (out_.request.nothing_asked) return hold(kept_bytes());
        if (auto error = encode()) return error;
        if (auto error = check_grammar()) return error;
        if (auto error = echo()) return error;
        if (!out_.request.prediction.empty()) {
            out_.prediction = codec().encode(out_.request.prediction, false);
            out_.request.prediction = {};
        }
        out_.stops = std::make_shared<const text::StopStrings>(std::move(out_.request.stop));
        return hold(kept_bytes());
    }

  private:
    std::optional<ApiError> hold(std::int64_t bytes) {
        const base::Status held = out_.share->resize(bytes);
        if (!held.ok()) return from_error(held.error());
        if (dropped_) return unavailable("The client is gone.", 1);
        return {};
    }

    std::optional<ApiError> read(Endpoint endpoint, std::string body) {
        std::int64_t json_bytes = 0;
        if (auto error = measure_json(body, limits_, json_bytes)) return error;
        if (endpoint != Endpoint::completions) json_bytes *= kChatCopies;
        if (auto error = hold(out_.share->bytes() + json_bytes)) return error;
        nlohmann::ordered_json object;
        if (auto error = parse_json_object(body, object)) return error;
        out_.model = models_.find(model_named_in(object));
        // What is wrong with the request whatever its model is said before that this is unknown.
        limit_to(out_.model != nullptr ? *out_.model : models_.first());
        if (auto error = read_request(endpoint, object, limits_, out_.request)) {
            return error;
        }
        if (out_.model == nullptr) return model_not_found(out_.request.model);
        if (!out_.model->info.encoder || out_.request.nothing_asked) return {};
        const char* does = out_.model->info.ranks
                               ? "a cross-encoder: it ranks documents (/v1/rerank)"
                               : "an encoder: it makes embeddings (/v1/embeddings)";
        return bad_field("model", fmt::format("The model '{}' is {} and writes no text.",
                                              out_.model->info.name, does));
    }

    void limit_to(const ModelEntry& model) {
        limits_.vocab_size = model.codec->vocab_size();
        limits_.context_length = model.info.context_length;
    }
    const TextCodec& codec() const { return *out_.model->codec; }

    std::optional<ApiError> encode() {
        CompletionRequest& request = out_.request;
        if (!request.messages.is_null()) {
            if (auto error = encode_chat()) return error;
        }
        for (PlainPrompt& prompt : request.prompts) {
            if (dropped_) return hold(0);
            const auto* text = std::get_if<std::string>(&prompt);
            if (!request.suffix.empty()) {
                auto tokens = codec().encode_infill(*text, request.suffix);
                if (!tokens) return cannot_fill_in();
                out_.prompts.push_back(std::move(*tokens));
            } else {
                out_.prompts.push_back(text != nullptr
                                           ? codec().encode(*text, true)
                                           : std::move(std::get<std::vector<Token>>(prompt)));
            }
            prompt = {};
            if (auto error = check_length(out_.model->info, request, out_.prompts.back().size())) {
                return error;
            }
        }
        request.prompts = {};
        request.suffix = {};
        return check_prompt_logprobs();
    }

    std::optional<ApiError> encode_chat() {
        CompletionRequest& request = out_.request;
        ChatPrompt prompt;
        prompt.messages = &request.messages;
        if (!request.tools.is_null()) prompt.tools = &request.tools;
        if (!request.kwargs.is_null()) prompt.kwargs = &request.kwargs;
        prompt.add_generation_prompt = request.add_generation_prompt;
        auto tokens = codec().encode_chat(prompt);
        if (!tokens.ok()) {
            ApiError error = from_error(tokens.error());
            error.param = prompt_field(request.endpoint);
            return error;
        }
        if (!request.tools.is_null()) {
            out_.tools = std::make_shared<const text::ToolSchemas>(request.tools);
        }
        out_.reads = codec().answer_format().with_tools(out_.tools != nullptr);
        const std::size_t tail = std::min(tokens->size(), kTailTokens);
        const std::string prompt_tail = codec().decode(std::span(*tokens).last(tail), false);
        out_.in_thought = out_.reads.begins_in_thought(prompt_tail);
        auto refused = hold_calls_to_schemas(static_cast<std::int32_t>(tokens->size()));
        if (!refused) leave_thought_alone(prompt_tail);
        request.messages = nullptr;
        request.tools = nullptr;
        request.kwargs = nullptr;
        out_.prompts.push_back(std::move(tokens).value());
        auto too_long = check_length(out_.model->info, request, out_.prompts.back().size());
        return too_long ? too_long : refused;
    }

    // Has calls of tools drawn in the model's form, with arguments that their schemas allow, ending
    // within the answer's tokens: if they are demanded, or else as soon as one begins.
    std::optional<ApiError> hold_calls_to_schemas(std::int32_t prompt_tokens) {
        CompletionRequest& request = out_.request;
        const bool demanded = request.tool_choice.demanded;
        if (request.tools.is_null() || (!demanded && says_otherwise(request))) return {};
        if (!demanded && out_.reads.tools == nullptr) return {};  // what is called is not read
        auto grammar = codec().grammar_of_calls(request.tools, request.tool_choice);
        if (!grammar.ok()) {
            ApiError error = from_error(grammar.error());
            error.param = demanded ? "tool_choice" : "tools";
            return error;
        }
        calls_may_be_free_ = !demanded && !any_strict(request.tools);
        grammar->within_tokens =
            request.max_tokens > 0 ? request.max_tokens : tokens_left(prompt_tokens);
        request.sampling.grammar = std::move(*grammar);
        return {};
    }

    // Whether the answer's text is somebody else's matter.
    static bool says_otherwise(const CompletionRequest& request) {
        return request.sampling.grammar.present() || request.ignore_eos || request.beam;
    }

    static bool any_strict(const nlohmann::ordered_json& tools) {
        return std::ranges::any_of(tools, [](const auto& tool) {
            return tool["function"].value("strict", nlohmann::ordered_json()) == true;
        });
    }

    // A grammar begins behind the thought, which may have only so many tokens.
    void leave_thought_alone(std::string_view prompt_tail) {
        const CompletionRequest& request = out_.request;
        spec::OutputGrammar& grammar = out_.request.sampling.grammar;
        if (!grammar.present() && request.max_thought_tokens < 0) return;
        using GrammarKind = spec::OutputGrammar::Kind;
        const bool free = grammar.kind == GrammarKind::none && out_.tools != nullptr;
        const bool may_call = free || grammar.kind == GrammarKind::tool_calls;
        grammar.thought = out_.reads.thought_behind(prompt_tail, may_call);
        if (!grammar.thought.close.empty()) {
            grammar.thought.max_tokens = request.max_thought_tokens;
        }
    }

    // That an answer without max_tokens may have.
    std::int32_t tokens_left(std::int32_t prompt_tokens) const {
        std::int64_t most = out_.model->info.context_length;
        const std::int64_t capacity = out_.model->service->capacity_tokens();
        if (capacity > 0) most = std::min(most, capacity);
        return static_cast<std::int32_t>(std::max<std::int64_t>(1, most - prompt_tokens));
    }

    // Checks what the workers would say of the first token that is drawn under the grammar.
    std::optional<ApiError> check_grammar() {
        using GrammarKind = spec::OutputGrammar::Kind;
        spec::OutputGrammar& grammar = out_.request.sampling.grammar;
        if (!grammar.present()) return {};
        const base::Status begins = codec().check_grammar(grammar);
        if (begins.ok()) return {};
        if (calls_may_be_free_) {
            grammar = {GrammarKind::none, "", 0, std::move(grammar.thought)};
            if (!grammar.present()) grammar = {};
            return {};
        }
        ApiError error = from_error(begins.error());
        const bool demanded = out_.request.tool_choice.demanded;
        error.param = grammar.kind == GrammarKind::tool_calls ? (demanded ? "tool_choice" : "tools")
                      : grammar.kind == GrammarKind::gbnf     ? "grammar"
                                                              : "response_format";
        return error;
    }

    // The log-probabilities of a prompt go out with the first text of a choice, in one piece.
    std::optional<ApiError> check_prompt_logprobs() const {
        const CompletionRequest& request = out_.request;
        if (!request.stream || !request.wants_prompt_logprobs()) return {};
        std::int64_t rows = 0;
        for (const auto& prompt : out_.prompts) rows += static_cast<std::int64_t>(prompt.size());
        const std::int64_t all = rows * (1 + request.sampling.n_logprobs) * request.made();
        if (all <= limits_.max_streamed_prompt_logprobs) return {};
        return bad_field(
            "stream", fmt::format("'stream': {} log-probabilities of prompts are more than "
                                  "{} (max_streamed_prompt_logprobs); ask for them without stream",
                                  all, limits_.max_streamed_prompt_logprobs));
    }

    std::optional<ApiError> echo() {
        if (!out_.request.echo) return {};
        const auto made = static_cast<std::size_t>(out_.request.made());
        std::size_t bytes = 0;
        for (const auto& prompt : out_.prompts) {
            auto text = codec().decode(prompt, out_.request.skip_special_tokens);
            bytes += text.size() * made;
            if (bytes > limits_.max_echoed_bytes) {
                return bad_field("echo",
                                 fmt::format("'echo': the prompts' text times the choices is more "
                                             "than {} bytes (max_echoed_bytes)",
                                             limits_.max_echoed_bytes));
            }
            out_.echoes.push_back(std::make_shared<const std::string>(std::move(text)));
        }
        return {};
    }

    std::int64_t kept_bytes() const {
        const CompletionRequest& request = out_.request;
        const std::size_t prompts = out_.prompts.size();
        // Each prompt is a request of its own to the service.
        const std::size_t each =
            request.sampling.grammar.text.size() +
            request.sampling.logit_bias.size() * sizeof(std::pair<Token, float>) +
            (out_.prediction.size() + request.stop_token_ids.size()) * sizeof(Token);
        std::size_t bytes = each * prompts + request.settings.size();
        for (const auto& prompt : out_.prompts) bytes += prompt.size() * sizeof(Token);
        for (const auto& echoed : out_.echoes) bytes += echoed->size();
        const auto choices = static_cast<std::int64_t>(prompts) * request.made();
        return static_cast<std::int64_t>(bytes) + choices * kChoiceBytes;
    }

    RequestLimits limits_;
    const ModelRegistry& models_;
    const std::atomic<bool>& dropped_;
    PreparedCompletion& out_;
    bool calls_may_be_free_ = false;  // where their schemas cannot be kept
};

}  // namespace

std::optional<ApiError> measure_json(std::string_view text, const RequestLimits& limits,
                                     std::int64_t& bytes) {
    std::size_t values = 0;
    bool in_string = false;
    bool in_word = false;  // a number, true, false, null
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
            continue;
        }
        const bool begins = c == '"' || c == '{' || c == '[';
        const bool between = c == ',' || c == ':' || c == '}' || c == ']' || c == ' ' ||
                             c == '\n' || c == '\r' || c == '\t';
        if (begins || (!between && !in_word)) ++values;
        in_word = !begins && !between;
        in_string = c == '"';
        if (values > limits.max_json_values) {
            return bad_field("", fmt::format("The body has more than {} values and names "
                                             "(max_json_values).",
                                             limits.max_json_values));
        }
    }
    bytes = static_cast<std::int64_t>(values) * kJsonValueBytes +
            static_cast<std::int64_t>(text.size());
    return {};
}

std::optional<ApiError> read_body(const RequestLimits& limits, std::string_view body,
                                  RequestBudget::Share& share, nlohmann::ordered_json& object) {
    std::int64_t bytes = 0;
    if (auto error = measure_json(body, limits, bytes)) return error;
    const base::Status held = share.resize(share.bytes() + bytes);
    if (!held.ok()) return from_error(held.error());
    return parse_json_object(body, object);
}

std::optional<ApiError> prepare_completion(const RequestLimits& limits, const ModelRegistry& models,
                                           Endpoint endpoint, std::string body,
                                           const std::atomic<bool>& dropped,
                                           PreparedCompletion& prepared) {
    return Preparation(limits, models, dropped, prepared).run(endpoint, std::move(body));
}

}  // namespace helix::api
