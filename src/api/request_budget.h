#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace helix::api {

// Limits what the requests that are not over hold of the process: their number and their bytes.
// Those of one client hold at most three quarters of either. For any thread.
class RequestBudget {
    struct Held;

  public:
    RequestBudget(std::int64_t max_requests, std::int64_t max_bytes);

    // One request's part, which is given back when this is destroyed.
    class Share {
      public:
        ~Share();
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        std::int64_t bytes() const { return bytes_; }
        // Errors: overloaded if all together, or all of its client, would hold too much; too_large
        // if this one alone would. The share then stays as it is. For one thread at a time.
        base::Status resize(std::int64_t bytes);

      private:
        friend class RequestBudget;
        Share(std::shared_ptr<Held> held, std::string client)
            : held_(std::move(held)), client_(std::move(client)) {}
        std::shared_ptr<Held> held_;
        std::string client_;
        std::int64_t bytes_ = 0;
    };

    // Opens a share. Errors are those of resize(), and overloaded for too many requests.
    base::Result<std::shared_ptr<Share>> open(const std::string& client, std::int64_t bytes);

    // Hardly anything more is taken: all requests are there, or 15 of 16 bytes are held.
    bool is_full() const;
    std::int64_t requests() const;
    std::int64_t bytes() const;

  private:
    std::shared_ptr<Held> held_;
};

}  // namespace helix::api
