#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/template/chat_template.h"
#include "text/tool_calls/tool_format.h"

// How calls of tools in earlier turns, and the tools themselves, are given to a chat template.

namespace helix::text {

struct CallStyle {
    bool text_arguments = false;  // arguments as the text of JSON in place of an object
    bool empty_content = false;   // "" in place of null where a message is nothing but calls
    bool nine_char_ids = false;   // ids are nine letters or digits
    bool thinking = false;        // reasoning_content goes under "thinking"
    bool bare_tools = false;      // tools are functions without the object around them
    // The template knows no tools: it gets them, calls and results as text of messages.
    bool generic = false;
};

// Finds out what the template takes by rendering a call.
CallStyle probe_call_style(const ChatTemplate& chat_template, const ToolFormat& format);

// Changes messages, as the API has them, into what the template takes. Arguments are objects in
// them.
void bring_history_into_style(const CallStyle& style, nlohmann::ordered_json& messages);

// Tools, as the API has them, in the form that the template takes.
nlohmann::ordered_json tools_in_style(const CallStyle& style, const nlohmann::ordered_json& tools);

// Tells a model whose template knows no tools of these, at the front of the first message.
void tell_of_tools(const nlohmann::ordered_json& tools, nlohmann::ordered_json& messages);

}  // namespace helix::text
