#pragma once

#include <cstddef>
#include <vector>

#include "core/routing/request_router.h"

namespace helix::core {

// CarriedRows is by which routers that follow the planned flow share requests out: the rows that
// each of several ways has carried, for its flow. A request takes the way that would then have
// carried the least.
//
// Rows count from when the cluster was last without any request. What ways carried before is no
// reason to give one more than its share of the requests that are there now: after an answer of
// hundreds of tokens from one of two equal machines, the next dozen of short questions, asked at
// once, would all go to the other. The first request after such a pause goes by all rows ever
// carried, so the shares are those of the flow also where requests come one by one.
class CarriedRows {
  public:
    explicit CarriedRows(std::size_t ways = 0) : ever_(ways, 0), since_pause_(ways, 0) {}

    void add(std::size_t way, double rows_for_flow) {
        ever_[way] += rows_for_flow;
        since_pause_[way] += rows_for_flow;
    }
    // What counts, by way, for a request that is routed now.
    const std::vector<double>& counted_for(const RoutedRequest& request) {
        if (request.others_run) return since_pause_;
        since_pause_.assign(ever_.size(), 0);
        return ever_;
    }

  private:
    std::vector<double> ever_;
    std::vector<double> since_pause_;
};

}  // namespace helix::core
