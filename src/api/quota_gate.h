#pragma once

#include <memory>

#include "api/context.h"
#include "api/guard.h"
#include "net/http_server.h"

namespace helix::api {

// Counts a request, and later its tokens, for the key that it brought, and tells its client in
// headers what is left (x-ratelimit-...). False if it was answered with 429, since the key has used
// up what it may. A request without a key passes uncounted.
bool within_quota(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
                  const Passage& passage);

}  // namespace helix::api
