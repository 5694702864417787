#pragma once

#include <string>
#include <string_view>

#include "api/writers/answer_writer.h"

// What the streamed and the whole answers of Anthropic's protocol have in common. An answer has one
// choice.

namespace helix::api {

constexpr std::string_view kMessageIdPrefix = "msg_";

// {"id":..., up to the value of content.
std::string anthropic_head(const AnswerHead& head);
// "stop_reason":...,"stop_sequence":...; calls: whether the answer calls tools.
void append_anthropic_end(std::string& out, const ChoiceEnd& end, bool calls);
// input_tokens leaves out those that came from the prefix cache.
void append_anthropic_usage(std::string& out, const Usage& usage);

}  // namespace helix::api
