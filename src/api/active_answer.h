#pragma once

#include "base/time.h"

namespace helix::api {

// An answer that the service works on, on the HTTP server's thread. It is in ApiContext::active
// from its start until it is over.
class ActiveAnswer {
  public:
    virtual ~ActiveAnswer() = default;
    virtual void on_tick(base::TimePoint /*now*/) {}
    // The server shuts down: an answer that is not whole ends with an error that says so.
    virtual void shut_down() = 0;
};

}  // namespace helix::api
