#pragma once

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {

// The tools of a chat, checked; null where it has none.
nlohmann::ordered_json read_tool_list(FieldReader& fields, const RequestLimits& limits);
// Reads which tools a chat has, and which of them may, or have to be called: tools, tool_choice and
// parallel_tool_calls. What else says what the answer must be has been read before.
void read_tools(FieldReader& fields, const RequestLimits& limits, CompletionRequest& request);

}  // namespace helix::api
