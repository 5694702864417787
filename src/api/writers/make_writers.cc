#include "api/writers/make_writers.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "api/writers/anthropic_stream.h"
#include "api/writers/anthropic_whole.h"
#include "api/writers/ollama_stream.h"
#include "api/writers/openai_stream.h"
#include "api/writers/openai_whole.h"
#include "api/writers/responses_stream.h"

namespace helix::api {
namespace {

const OpenAiShape& shape_of(Endpoint endpoint) {
    return endpoint == Endpoint::chat ? chat_shape() : completions_shape();
}

std::vector<PromptEcho> echoes_of(const PreparedCompletion& prepared) {
    std::vector<PromptEcho> echoes(prepared.prompts.size());
    for (std::size_t i = 0; i < echoes.size(); ++i) {
        if (prepared.request.echo) echoes[i].text = prepared.echoes[i];
        if (prepared.request.wants_prompt_logprobs()) {
            echoes[i].first = prepared.prompts[i].front();
        }
    }
    return echoes;
}

}  // namespace

std::string answer_id(Endpoint endpoint, std::uint64_t number) {
    std::string_view prefix = shape_of(endpoint).id_prefix;
    if (endpoint == Endpoint::messages) prefix = kMessageIdPrefix;
    if (endpoint == Endpoint::responses) prefix = kResponseIdPrefix;
    return fmt::format("{}{:016x}", prefix, number);
}

std::unique_ptr<StreamWriter> make_stream_writer(const PreparedCompletion& prepared,
                                                 const AnswerHead& head) {
    const CompletionRequest& request = prepared.request;
    switch (request.endpoint) {
        case Endpoint::messages:
        case Endpoint::message_tokens:
            return std::make_unique<AnthropicStream>(head);
        case Endpoint::ollama_chat:
            return std::make_unique<OllamaStream>(OllamaForm::chat, head);
        case Endpoint::ollama_generate:
            return std::make_unique<OllamaStream>(OllamaForm::generate, head);
        case Endpoint::responses:
            return std::make_unique<ResponsesStream>(head, request.settings, prepared.on_response);
        case Endpoint::chat:
        case Endpoint::completions:
            break;
    }
    OpenAiStream::Options options;
    options.choices_of_prompt = static_cast<std::size_t>(request.made());
    options.include_usage = request.include_usage;
    options.continuous_usage = request.continuous_usage;
    return std::make_unique<OpenAiStream>(shape_of(request.endpoint), head, *prepared.model->codec,
                                          options, echoes_of(prepared));
}

std::shared_ptr<const WholeWriter> make_whole_writer(const PreparedCompletion& prepared,
                                                     const AnswerHead& head) {
    const CompletionRequest& request = prepared.request;
    switch (request.endpoint) {
        case Endpoint::messages:
        case Endpoint::message_tokens:
            return std::make_shared<const AnthropicWhole>(head);
        case Endpoint::ollama_chat:
            return std::make_shared<const OllamaWhole>(OllamaForm::chat, head);
        case Endpoint::ollama_generate:
            return std::make_shared<const OllamaWhole>(OllamaForm::generate, head);
        case Endpoint::responses:
            return std::make_shared<const ResponsesWhole>(head, request.settings,
                                                          prepared.on_response);
        case Endpoint::chat:
        case Endpoint::completions:
            break;
    }
    return std::make_shared<const OpenAiWhole>(
        shape_of(request.endpoint), head, *prepared.model->codec,
        static_cast<std::size_t>(request.n), echoes_of(prepared));
}

}  // namespace helix::api
