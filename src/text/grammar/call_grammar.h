#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace helix::text::grammar {

// What a spec::OutputGrammar of kind tool_calls says: calls of tools in the form of the model's
// family around arguments that satisfy a schema each. Its text is JSON:
//
//   {"begin": "", "between": "\n", "end": "", "min": 1, "max": 4, "markers": ["[TOOL_CALLS]"],
//    "calls": [{"before": "<tool_call>\n{\"name\": \"add\", \"arguments\": ",
//               "schema": {"type": "object"}, "after": "}\n</tool_call>"}]}
//
// min to max calls, each one of "calls", come with "between" between them after "begin" and before
// "end". begin, between, end and markers may be missing; max = 0 is no limit. markers: control
// tokens of these texts, where the vocabulary has them, may be drawn as well as the characters.

// Error invalid names what is wrong; for a schema as json_schema_grammar() does.
base::Result<Grammar> call_grammar(std::string_view text);

// The markers of such a text; none if it cannot be read.
std::vector<std::string> markers_of_calls(std::string_view text);

}  // namespace helix::text::grammar
