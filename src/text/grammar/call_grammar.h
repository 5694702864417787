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
// "before" may be an array of texts, ids, {"of": "0-9a-z", "min": 1, "max": 4}, and arrays of texts
// of which one comes.
// "tags" of a call: its arguments are not JSON but have a tag each (ArgumentTags; text, json,
// close, never, texts, keeps_line_ends).
// "notation" of a call: its arguments are in Python's, python, or an object in one of Gemma's,
// gemma and function_gemma. trigger: calls may come, and begin with this text, or one of several,
// before which anything else may be written; the text may also end without calls. trigger_first:
// calls come only where the text begins so. Without a trigger there is nothing but calls.
struct CallForm {
    Grammar grammar;
    std::vector<std::string> markers;
    bool free = false;  // it has a trigger
};

// Error invalid names what is wrong; for a schema as json_schema_grammar() does.
base::Result<CallForm> call_grammar(std::string_view text);

}  // namespace helix::text::grammar
