#pragma once

#include "api/writers/openai_shape.h"

namespace helix::api {

// A whole answer of OpenAI's endpoints for completions.
class OpenAiWhole final : public WholeWriter {
  public:
    // codec must outlive it. echoes has one for each prompt, of which choices_of_prompt are shown.
    OpenAiWhole(const OpenAiShape& shape, const AnswerHead& head, const TextCodec& codec,
                std::size_t choices_of_prompt, std::vector<PromptEcho> echoes);

    std::string write(const WholeAnswer& answer) const override;

  private:
    void append_choice(std::string& out, const WholeChoice& choice, const PromptEcho& echo) const;

    const OpenAiShape& shape_;
    std::string head_;
    const TextCodec& codec_;
    std::size_t choices_of_prompt_;
    std::vector<PromptEcho> echoes_;
};

}  // namespace helix::api
