#include "api/request_budget.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string_view>

namespace helix::api {

using base::Errc;
using base::Error;

namespace {

struct Use {
    std::int64_t requests = 0;
    std::int64_t bytes = 0;
};

// What one client may have of a limit for all.
std::int64_t share_of(std::int64_t all) {
    return all - all / 4;
}

Error too_much(std::string_view whose, const Use& use, std::int64_t more, std::int64_t most) {
    return {Errc::overloaded,
            fmt::format("{} that are not over hold {} bytes of memory, {} more would be over the "
                        "limit of {} (max_request_bytes).",
                        whose, use.bytes, more, most)};
}

}  // namespace

struct RequestBudget::Held {
    const std::int64_t max_requests;
    const std::int64_t max_bytes;
    std::mutex mutex = {};
    Use all = {};
    std::map<std::string, Use> clients = {};  // clients that hold anything
};

RequestBudget::RequestBudget(std::int64_t max_requests, std::int64_t max_bytes)
    : held_(new Held{max_requests, max_bytes}) {}

bool RequestBudget::is_full() const {
    const std::lock_guard lock(held_->mutex);
    const std::int64_t left = held_->max_bytes - held_->all.bytes;
    return held_->all.requests >= held_->max_requests || left < held_->max_bytes / 16;
}

std::int64_t RequestBudget::requests() const {
    const std::lock_guard lock(held_->mutex);
    return held_->all.requests;
}

std::int64_t RequestBudget::bytes() const {
    const std::lock_guard lock(held_->mutex);
    return held_->all.bytes;
}

base::Result<std::shared_ptr<RequestBudget::Share>> RequestBudget::open(const std::string& client,
                                                                        std::int64_t bytes) {
    {
        const std::lock_guard lock(held_->mutex);
        if (held_->all.requests >= held_->max_requests) {
            return Error{Errc::overloaded, fmt::format("{} requests are not over yet: no more are "
                                                       "taken (max_requests).",
                                                       held_->max_requests)};
        }
        Use& use = held_->clients[client];
        if (use.requests >= share_of(held_->max_requests)) {
            return Error{Errc::overloaded,
                         fmt::format("{} requests of yours are not over yet: no more are taken "
                                     "(three quarters of max_requests).",
                                     use.requests)};
        }
        ++use.requests;
        ++held_->all.requests;
    }
    std::shared_ptr<Share> share(new Share(held_, client));
    TRY_VOID(share->resize(bytes));
    return share;
}

RequestBudget::Share::~Share() {
    const std::lock_guard lock(held_->mutex);
    const auto use = held_->clients.find(client_);
    use->second.bytes -= bytes_;
    held_->all.bytes -= bytes_;
    --held_->all.requests;
    if (--use->second.requests == 0) held_->clients.erase(use);
}

base::Status RequestBudget::Share::resize(std::int64_t bytes) {
    const std::lock_guard lock(held_->mutex);
    const std::int64_t more = bytes - bytes_;
    Use& yours = held_->clients.at(client_);
    const std::int64_t most = share_of(held_->max_bytes);
    if (more > 0 && bytes > most) {
        return Error{
            Errc::too_large,
            fmt::format("This request would hold {} bytes of memory, one client's together may "
                        "hold {} (three quarters of max_request_bytes).",
                        bytes, most)};
    }
    if (more > 0 && yours.bytes + more > most) {
        return too_much("Requests of yours", yours, more, most);
    }
    if (more > 0 && held_->all.bytes + more > held_->max_bytes) {
        return too_much("Requests", held_->all, more, held_->max_bytes);
    }
    yours.bytes += more;
    held_->all.bytes += more;
    bytes_ = bytes;
    return base::Ok{};
}

}  // namespace helix::api
