#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "api/error.h"
#include "api/prepare_pool.h"
#include "api/request_budget.h"
#include "net/http_server.h"

namespace helix::api {

struct ApiContext;

// What the work of a request gets that runs off the server's thread.
struct HeavyInput {
    std::string body;
    std::shared_ptr<const void> body_share;  // the body's share of the memory for bodies
    // The request's share of memory. It holds the body's bytes; what is made of the body is to be
    // added.
    std::shared_ptr<RequestBudget::Share> share;
    // True when nobody waits for the answer any more. Long work looks at it now and then.
    std::shared_ptr<const std::atomic<bool>> dropped;
};

// Runs on the server's thread when the work is done, if there is still somebody who waits.
using Then = std::function<void()>;
// Runs on a thread of the pool. It may use only what does not change and what it is given.
using HeavyWork = std::function<Then(HeavyInput input)>;

// Takes the exchange's body and works on it in context.pool. Runs on the server's thread, where
// refusals are answered too: too much waits or is held already (429), the server stops (503), or
// the work had no memory (503). When the client goes away meanwhile the work is dropped.
void run_heavy(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
               const std::string& client, HeavyWork work);
// A request that is with the pool.
struct HeavyRequest {
    std::shared_ptr<net::HttpExchange> exchange;
    std::shared_ptr<std::atomic<bool>> dropped = std::make_shared<std::atomic<bool>>(false);
    PreparePool::Ticket ticket = 0;
};

// The client of a request, whose turn in the pool it takes. Clients are told apart by their key
// where keys are asked for, else by address.
std::string client_of(const ApiContext& context, const net::HttpRequest& request);
// The client as a number, for core::Request::client; 0: the request is our own.
std::uint64_t client_number(const ApiContext& context, const net::HttpRequest& request);

}  // namespace helix::api
