#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/error.h"
#include "api/request_budget.h"

namespace helix::api {

// What is kept of an answer until it may be sent, counted against its own limit and against the
// request's share of the memory for all.
class AnswerMemory {
  public:
    // share holds what the request takes besides its answer. most_bytes: that may be kept.
    AnswerMemory(std::shared_ptr<RequestBudget::Share> share, std::int64_t most_bytes)
        : share_(std::move(share)), most_bytes_(most_bytes), before_bytes_(share_->bytes()) {}

    // Counts what is kept from now on; an error if that is too much.
    std::optional<ApiError> keep(std::int64_t bytes);
    // What was kept has been sent. The share is not made smaller.
    void sent() { kept_bytes_ = 0; }
    std::int64_t kept_bytes() const { return kept_bytes_; }
    // The share, which goes on with the answer or ends when nobody holds it.
    std::shared_ptr<RequestBudget::Share> release() { return std::move(share_); }

  private:
    std::shared_ptr<RequestBudget::Share> share_;
    std::int64_t most_bytes_;
    std::int64_t before_bytes_;  // of the share
    std::int64_t kept_bytes_ = 0;
};

}  // namespace helix::api
