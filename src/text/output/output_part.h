#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "text/tool_calls/tool_call_delta.h"

// What an answer consists of for its reader.

namespace helix::text {

// Text that is the answer.
struct ContentText {
    std::string text;
};
// Text in which the model thinks before it answers.
struct ReasoningText {
    std::string text;
};

using OutputPart = std::variant<ContentText, ReasoningText, ToolCallDelta>;

// The bytes of text that a part brings.
std::size_t text_bytes(const OutputPart& part);

// Adds a part at the end. What continues the last part (text of the same kind, a piece of the same
// call) is joined to it.
void append_part(std::vector<OutputPart>& parts, OutputPart part);

// Takes the calls out that are not complete, of an answer that was not cut off; their text is among
// its content. The others are counted anew.
void drop_broken_calls(std::vector<OutputPart>& parts);

}  // namespace helix::text
