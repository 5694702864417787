#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "api/completion_request.h"

namespace helix::api {

// Reads a parsed body of any endpoint that asks for an answer, of which it takes the large parts.
// The error names the field as that endpoint calls it; request is usable only when there is none.
std::optional<ApiError> read_request(Endpoint endpoint, nlohmann::ordered_json& body,
                                     const RequestLimits& limits, CompletionRequest& request);

}  // namespace helix::api
