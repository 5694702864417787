#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "api/service.h"
#include "net/http_server.h"

namespace helix::api {

class Completion;

// Hands what the service says of a completion's prompt over to the server's thread.
std::shared_ptr<TokenSink> completion_sink(std::shared_ptr<Completion> completion,
                                           std::size_t prompt,
                                           std::function<void(net::HttpServer::Task)> post);

}  // namespace helix::api
