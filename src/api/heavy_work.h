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

// What a request's work off the server's thread is given.
struct HeavyInput {
    std::string body;
    std::shared_ptr<const void> body_share;  // of the server's memory for bodies
    // Holds the body's bytes; what is worked out of it is to be added.
    std::shared_ptr<RequestBudget::Share> share;
    // Nobody waits for the answer any more. Long work looks now and then.
    std::shared_ptr<const std::atomic<bool>> dropped;
};

// Runs on the server's thread when the work is done, if there is still somebody who waits.
using Then = std::function<void()>;
// Runs on a thread of the pool: uses only what does not change, and what it is given.
using HeavyWork = std::function<Then(HeavyInput input)>;

// Takes the exchange's body and works on it in context.pool. Server's thread, as are refusals: too
// much waits, or is held already (429), the server stops (503), or the work had no memory (503).
// When the client goes away meanwhile the work is dropped.
void run_heavy(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
               const std::string& client, HeavyWork work);
// Of a request that is with the pool.
struct HeavyRequest {
    std::shared_ptr<net::HttpExchange> exchange;
    std::shared_ptr<std::atomic<bool>> dropped = std::make_shared<std::atomic<bool>>(false);
    PreparePool::Ticket ticket = 0;
};

// Whose turn it is: clients are told apart by their key where keys are asked for, else by address.
std::string client_of(const ApiContext& context, const net::HttpRequest& request);
// The same as a number, for core::Request::client; 0: it is our own.
std::uint64_t client_number(const ApiContext& context, const net::HttpRequest& request);

}  // namespace helix::api
