#pragma once

#include <memory>
#include <string>

#include "api/request_budget.h"
#include "net/http_server.h"

namespace helix::api {

struct ApiContext;

// Answers with JSON that may be long: it is written as the client takes it, so that no copy of it
// waits with the connection. share is held until the client has taken it, or is gone.
void send_long(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
               std::shared_ptr<const std::string> body,
               std::shared_ptr<RequestBudget::Share> share);

}  // namespace helix::api
