#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/writers/answer_writer.h"
#include "api/writers/logprob_text.h"

// What tells the answers of OpenAI's two endpoints for completions apart.

namespace helix::api {

// What the choices of one prompt repeat of it.
struct PromptEcho {
    std::shared_ptr<const std::string> text;  // null = nothing
    // The prompt's first token, where log-probabilities of the prompt are asked for.
    std::optional<Token> first;
};

struct OpenAiShape {
    std::string_view id_prefix;
    std::string_view whole_object;
    std::string_view chunk_object;
    LogprobText::Form logprobs;

    // Fields of a choice in a chunk, each with the comma before it.
    std::string_view first_delta;  // before all else of the choice; "" = there is no such chunk
    void (*append_delta)(std::string& out, const text::OutputPart& part);
    std::string_view last_delta;
    // The same of a choice that is sent whole.
    void (*append_whole)(std::string& out, const std::vector<text::OutputPart>& parts);
};
const OpenAiShape& chat_shape();
// Content is all that it can show.
const OpenAiShape& completions_shape();

// {"id":..., up to the value of choices.
std::string openai_head(std::string_view object, const AnswerHead& head);
void append_openai_usage(std::string& out, const Usage& usage);
// calls: whether the choice has a whole call of a tool.
std::string_view openai_finish_name(core::FinishReason reason, bool calls);

}  // namespace helix::api
