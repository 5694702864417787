#include "api/request_budget.h"

#include <fmt/format.h>

#include <atomic>

namespace helix::api {

using base::Errc;
using base::Error;

struct RequestBudget::Held {
    const std::int64_t max_requests;
    const std::int64_t max_bytes;
    std::atomic<std::int64_t> requests{0};
    std::atomic<std::int64_t> bytes{0};
};

RequestBudget::RequestBudget(std::int64_t max_requests, std::int64_t max_bytes)
    : held_(new Held{max_requests, max_bytes}) {}

std::int64_t RequestBudget::requests() const {
    return held_->requests;
}

std::int64_t RequestBudget::bytes() const {
    return held_->bytes;
}

base::Result<std::shared_ptr<RequestBudget::Share>> RequestBudget::open(std::int64_t bytes) {
    std::shared_ptr<Share> share(new Share(held_));
    if (held_->requests.fetch_add(1) >= held_->max_requests) {
        return Error{Errc::overloaded,
                     fmt::format("{} requests are not over yet: no more are taken (max_requests).",
                                 held_->max_requests)};
    }
    TRY_VOID(share->resize(bytes));
    return share;
}

RequestBudget::Share::~Share() {
    held_->bytes -= bytes_;
    --held_->requests;
}

base::Status RequestBudget::Share::resize(std::int64_t bytes) {
    const std::int64_t more = bytes - bytes_;
    const std::int64_t all = held_->bytes.fetch_add(more) + more;
    if (more > 0 && all > held_->max_bytes) {
        held_->bytes -= more;
        if (bytes > held_->max_bytes) {
            return Error{Errc::too_large,
                         fmt::format("This request would hold {} bytes of memory, all together may "
                                     "hold {} (max_request_bytes).",
                                     bytes, held_->max_bytes)};
        }
        return Error{Errc::overloaded,
                     fmt::format("Requests that are not over hold {} bytes of memory, {} more "
                                 "would be over the limit of {} (max_request_bytes).",
                                 all - more, more, held_->max_bytes)};
    }
    bytes_ = bytes;
    return base::Ok{};
}

}  // namespace helix::api
