#pragma once

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {

// Reads response_format {text | json_object | json_schema} and grammar (GBNF), of which a request
// may have one. They are checked as far as the workers will check them, so a schema or grammar that
// is accepted here can be followed.
void read_output_format(FieldReader& fields, CompletionRequest& request);

}  // namespace helix::api
