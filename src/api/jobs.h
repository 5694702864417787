#pragma once

#include <functional>
#include <memory>

#include "api/api_server.h"
#include "base/result.h"
#include "net/http_server.h"
#include "store/job_store.h"

namespace helix::api {

struct ApiContext;
class KeptResponses;

// Files and batches behind the API: owns the store and the one thread that uses it, so that no
// write to a disk holds up the HTTP server's thread.
class Jobs {
  public:
    using Work =
        std::function<net::HttpResponse(store::JobStore& store, const net::HttpRequest& request)>;

    // context must outlive the jobs; nothing of it is used before start().
    static base::Result<std::unique_ptr<Jobs>> open(ApiContext& context, JobOptions options);
    ~Jobs();
    Jobs(const Jobs&) = delete;
    Jobs& operator=(const Jobs&) = delete;

    // Lets unfinished batches go on.
    void start();
    // Answers the exchange with what work returns; work runs on the thread of the store. To be
    // called on the HTTP server's thread.
    void ask(const std::shared_ptr<net::HttpExchange>& exchange, Work work);
    // Answers with a file's content, which is read as the client takes it. To be called on the HTTP
    // server's thread.
    void download(const std::shared_ptr<net::HttpExchange>& exchange, const std::string& file);
    // Runs task soon on the thread of the store; not after stop(). Any thread.
    void later(std::function<void()> task);
    // The answers of /v1/responses that are kept, in the same place.
    KeptResponses& responses();
    // Gives the lines under way back to the service; they are run again after the next start. To be
    // called on another thread than the HTTP server's, which must still run.
    void stop();

    struct Impl;

  private:
    explicit Jobs(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::api
