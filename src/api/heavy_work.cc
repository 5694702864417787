#include "api/heavy_work.h"

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "api/context.h"
#include "base/hash.h"
#include "base/log.h"

namespace helix::api {
namespace {

using Exchange = std::shared_ptr<net::HttpExchange>;
using Handle = std::shared_ptr<HeavyRequest>;

ApiError no_memory() {
    return unavailable("The server has not enough memory for this request.", 1);
}

// What the standard library throws becomes an answer, and everybody else goes on.
Then guarded(ApiContext& context, const Exchange& exchange, const std::string& request_id,
             const HeavyWork& work, HeavyInput input) {
    const auto answer = [&](ApiError error) {
        return [c = &context, exchange, error = std::move(error)] { c->refuse(*exchange, error); };
    };
    try {
        return work(std::move(input));
    } catch (const std::bad_alloc&) {
        LOG_ERROR("request {}: not enough memory to prepare it", request_id);
        return answer(no_memory());
    } catch (const std::length_error& e) {
        LOG_ERROR("request {}: {}", request_id, e.what());
        return answer(no_memory());
    } catch (const std::exception& e) {
        LOG_ERROR("request {}: {}", request_id, e.what());
        return answer(internal_error());
    }
}

// Runs on the server's thread.
void conclude(ApiContext& context, const Handle& handle, const Then& then) {
    if (context.heavy.erase(handle) == 0) return;  // the server has answered by itself
    handle->exchange->on_gone({});
    if (handle->exchange->open()) then();
}

void drop(ApiContext& context, const Handle& handle) {
    *handle->dropped = true;
    context.pool.cancel(handle->ticket);
    context.heavy.erase(handle);
}

}  // namespace

void run_heavy(ApiContext& context, const Exchange& exchange, const std::string& client,
               HeavyWork work) {
    std::string body = exchange->take_body();
    const std::size_t bytes = body.size();
    auto share = context.budget.open(client, static_cast<std::int64_t>(bytes));
    if (!share.ok()) {
        context.refuse(*exchange, from_error(share.error()));
        return;
    }
    const auto handle = std::make_shared<HeavyRequest>();
    handle->exchange = exchange;
    auto input = std::make_shared<HeavyInput>(
        HeavyInput{std::move(body), exchange->take_body_share(), *share, handle->dropped});
    PreparePool::Job job;
    job.client = client;
    job.bytes = bytes;
    job.alone = client == kBatchClient;
    job.run = [c = &context, handle, input, work = std::move(work),
               id = exchange->request().request_id] {
        Then then = guarded(*c, handle->exchange, id, work, std::move(*input));
        c->post([c, handle, then = std::move(then)] { conclude(*c, handle, then); });
    };
    job.refuse = [c = &context, handle](const base::Error& why) {
        c->post([c, handle, why] {
            conclude(*c, handle, [&] { c->refuse(*handle->exchange, from_error(why)); });
        });
    };
    const auto ticket = context.pool.add(std::move(job));
    if (!ticket.ok()) {
        context.refuse(*exchange, from_error(ticket.error()));
        return;
    }
    handle->ticket = *ticket;
    context.heavy.insert(handle);
    exchange->on_gone([c = &context, weak = std::weak_ptr(handle)] {
        if (const Handle gone = weak.lock()) drop(*c, gone);
    });
}

std::string client_of(const ApiContext& context, const net::HttpRequest& request) {
    const std::string key = context.guard->key_of(context.options.clock(), request);
    return key.empty() ? "address " + KeyThrottle::address_of(request.peer) : "key " + key;
}

std::uint64_t client_number(const ApiContext& context, const net::HttpRequest& request) {
    if (request.peer.empty()) return 0;
    const std::string client = client_of(context, request);
    const std::uint64_t hash = base::hash128(std::as_bytes(std::span(client))).low;
    return std::max<std::uint64_t>(1, hash);
}

}  // namespace helix::api
