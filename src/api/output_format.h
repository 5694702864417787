#pragma once

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {

// Reads response_format {text | json_object | json_schema}, grammar (GBNF), vLLM's
// structured_outputs {json | regex | choice | grammar | json_object} and its older guided_json,
// guided_regex, guided_choice and guided_grammar. A request may have one of them. They are checked
// as far as the workers will check them, so a schema or grammar that is accepted here can be
// followed.
void read_output_format(FieldReader& fields, CompletionRequest& request);

}  // namespace helix::api
