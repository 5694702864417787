#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/protocol/types.h"

namespace helix::core {

// KvEstimate is what the coordinator believes a worker's KV pool holds: for every request that runs
// there the pages of its expected final length, on the layers that it really uses, and never less
// than what the worker itself reports. The published implementation charges all of a node's layers
// when it decides on admission; our router knows which layers would run, so only those are charged.
class KvEstimate {
  public:
    void reset(std::int64_t total_pages);
    std::int64_t total() const { return total_; }

    void add(RequestId request, std::int64_t pages);
    void remove(RequestId request);
    // The request needs this many pages from now on; 0: it is swapped out, but still here.
    void set(RequestId request, std::int64_t pages);
    void set_reported(std::int64_t used_pages) { reported_ = used_pages; }

    std::int64_t charged() const { return charged_; }
    std::int64_t used() const { return charged_ > reported_ ? charged_ : reported_; }
    std::size_t requests() const { return charges_.size(); }  // swapped ones too
    std::size_t swapped() const { return swapped_; }
    // By rising request; a worker of a large cluster has a thousand, so they lie in a row.
    const std::vector<std::pair<RequestId, std::int64_t>>& charges() const { return charges_; }
    // Returns nothing for a request that is not here.
    std::optional<std::int64_t> charge_of(RequestId request) const;

    // Returns the pages that the requests that run here may be expected to take (spec/kv_fill.h).
    double most_pages(double high_water) const;
    // Says whether another request would stay within most_pages(). A pool that nobody uses takes
    // whatever fits.
    bool can_add(std::int64_t pages, double high_water) const;

  private:
    std::int64_t total_ = 0;
    std::int64_t charged_ = 0;
    std::int64_t reported_ = 0;
    std::vector<std::pair<RequestId, std::int64_t>> charges_;
    std::size_t swapped_ = 0;  // charges of 0
};

}  // namespace helix::core
