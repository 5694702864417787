#pragma once

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {

// Reads the fields that say how much a model is to think before it answers, and brings them to its
// template among the other variables: enable_thinking, and reasoning_effort, of which "none" means
// no thought. What chat_template_kwargs says goes before. And how many tokens a thought may have:
// thinking_token_budget (as vLLM calls it) or thinking_budget_tokens (llama.cpp), -1 for any
// number.
void read_thinking(FieldReader& fields, CompletionRequest& request);

}  // namespace helix::api
