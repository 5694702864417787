#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace helix::api {

// What the requests that are not over hold of the process: their number and their bytes. Those of
// one client hold at most three quarters of either. Any thread.
class RequestBudget {
    struct Held;

  public:
    RequestBudget(std::int64_t max_requests, std::int64_t max_bytes);

    // One request's part; gives it back when it goes.
    class Share {
      public:
        ~Share();
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        std::int64_t bytes() const { return bytes_; }
        // overloaded: all together, or all of its client, would hold too much; too_large: this one
        // alone. The share then stays as it is. One thread at a time.
        base::Status resize(std::int64_t bytes);

      private:
        friend class RequestBudget;
        Share(std::shared_ptr<Held> held, std::string client)
            : held_(std::move(held)), client_(std::move(client)) {}
        std::shared_ptr<Held> held_;
        std::string client_;
        std::int64_t bytes_ = 0;
    };

    // Errors as of resize(), or overloaded: too many requests.
    base::Result<std::shared_ptr<Share>> open(const std::string& client, std::int64_t bytes);

    std::int64_t requests() const;
    std::int64_t bytes() const;

  private:
    std::shared_ptr<Held> held_;
};

}  // namespace helix::api
