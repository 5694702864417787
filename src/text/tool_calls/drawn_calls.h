#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "text/tool_calls/drawn_forms.h"

namespace helix::text {

// OpenAI's tools as WantedCalls has them: without descriptions. Arguments are objects; of a tool
// that names no parameters the empty one.
nlohmann::ordered_json tools_to_call(const nlohmann::ordered_json& tools);

// Calls that an answer has to consist of.
struct WantedCalls {
    const DrawnForm* form = nullptr;
    // An array of {"name": ..., "parameters": schema}, of which any may be called.
    const nlohmann::ordered_json* tools = nullptr;
    bool several = true;   // or one call at most
    bool demanded = true;  // or any text may come before them, or in place of them
};

// What an OutputGrammar of kind tool_calls says to have such an answer drawn, in the form that the
// model's family writes. A call has the least white space, and no id, which only we give. Error
// invalid names a tool whose name the form's parser could not read.
base::Result<std::string> grammar_of_calls(const WantedCalls& wanted);

}  // namespace helix::text
