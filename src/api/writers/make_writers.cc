#include "api/writers/make_writers.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "api/writers/openai_stream.h"
#include "api/writers/openai_whole.h"

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

std::string new_answer_id(Endpoint endpoint, base::Random& random) {
    return fmt::format("{}{:016x}", shape_of(endpoint).id_prefix, random.next());
}

std::unique_ptr<StreamWriter> make_stream_writer(const PreparedCompletion& prepared,
                                                 const AnswerHead& head) {
    const CompletionRequest& request = prepared.request;
    OpenAiStream::Options options;
    options.choices_of_prompt = static_cast<std::size_t>(request.made());
    options.include_usage = request.include_usage;
    options.continuous_usage = request.continuous_usage;
    return std::make_unique<OpenAiStream>(shape_of(request.endpoint), head, *prepared.model->codec,
                                          options, echoes_of(prepared));
}

std::shared_ptr<const WholeWriter> make_whole_writer(const PreparedCompletion& prepared,
                                                     const AnswerHead& head) {
    return std::make_shared<const OpenAiWhole>(
        shape_of(prepared.request.endpoint), head, *prepared.model->codec,
        static_cast<std::size_t>(prepared.request.n), echoes_of(prepared));
}

}  // namespace helix::api
