#include "api/writers/openai_whole.h"

#include <algorithm>
#include <utility>

#include "api/json_text.h"

namespace helix::api {

OpenAiWhole::OpenAiWhole(const OpenAiShape& shape, const AnswerHead& head, const TextCodec& codec,
                         std::size_t choices_of_prompt, std::vector<PromptEcho> echoes)
    : shape_(shape),
      head_(openai_head(shape.whole_object, head)),
      codec_(codec),
      choices_of_prompt_(choices_of_prompt),
      echoes_(std::move(echoes)) {}

std::string OpenAiWhole::write(const WholeAnswer& answer) const {
    std::string out = head_;
    for (std::size_t i = 0; i < answer.choices.size(); ++i) {
        out += i > 0 ? ",{\"index\":" : "[{\"index\":";
        append_json_number(out, static_cast<std::int64_t>(i));
        append_choice(out, answer.choices[i], echoes_[i / choices_of_prompt_]);
        out += '}';
    }
    out += "],\"usage\":";
    append_openai_usage(out, answer.usage);
    out += '}';
    return out;
}

void OpenAiWhole::append_choice(std::string& out, const WholeChoice& choice,
                                const PromptEcho& echo) const {
    if (echo.text != nullptr) {
        std::vector<text::OutputPart> parts{text::ContentText{*echo.text}};
        for (const text::OutputPart& part : choice.parts) text::append_part(parts, part);
        shape_.append_whole(out, parts);
    } else {
        shape_.append_whole(out, choice.parts);
    }
    LogprobText logprobs(shape_.logprobs, codec_);
    if (echo.first) logprobs.add_first(*echo.first);
    if (choice.scored != nullptr) {
        for (const core::ProducedToken& token : *choice.scored) logprobs.add(token);
    }
    for (const core::ProducedToken& token : choice.tokens) logprobs.add(token);
    out += ",\"logprobs\":";
    out += logprobs.take();
    const bool calls =
        std::any_of(choice.parts.begin(), choice.parts.end(), [](const text::OutputPart& part) {
            const auto* call = std::get_if<text::ToolCallDelta>(&part);
            return call != nullptr && call->complete;
        });
    out += ",\"finish_reason\":\"";
    out += openai_finish_name(choice.end.reason, calls);
    out += '"';
}

}  // namespace helix::api
