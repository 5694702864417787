#pragma once

#include <memory>

#include "api/model_registry.h"
#include "net/http_server.h"

namespace helix::api {

struct ApiContext;

// Sends the files of models to those who pull them from here. A thread of its own reads, since a
// disk may be slow and weights may have to be made first; it reads a piece of each download in
// turn.
class ModelSender {
  public:
    explicit ModelSender(ApiContext& context);
    ~ModelSender();
    ModelSender(const ModelSender&) = delete;
    ModelSender& operator=(const ModelSender&) = delete;

    // Answers with the model's file, which it must have, or the part that is asked for.
    void send(const std::shared_ptr<net::HttpExchange>& exchange, const ModelEntry& model);
    // Ends the thread; downloads under way break off. Another thread than the server's.
    void stop();

    struct Impl;

  private:
    ApiContext& context_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::api
