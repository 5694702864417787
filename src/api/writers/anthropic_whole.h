#pragma once

#include "api/writers/anthropic_shape.h"

namespace helix::api {

// A message of Anthropic's protocol that is sent whole.
class AnthropicWhole final : public WholeWriter {
  public:
    explicit AnthropicWhole(const AnswerHead& head)
        : head_(anthropic_head(head)), signature_(head.id) {}

    std::string write(const WholeAnswer& answer) const override;

  private:
    std::string head_;
    std::string signature_;  // of its thoughts
};

}  // namespace helix::api
