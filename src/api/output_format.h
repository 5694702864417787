#pragma once

#include "api/completion_request.h"
#include "api/field_reader.h"

namespace helix::api {

// response_format {text | json_object | json_schema} and grammar (GBNF), checked as far as the
// workers will: a schema or grammar that is accepted here can be followed. At most one of them.
void read_output_format(FieldReader& fields, CompletionRequest& request);

}  // namespace helix::api
