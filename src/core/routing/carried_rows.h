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
    explicit CarriedRows(std::size_t ways = 0) : ways_(ways) {}

    void add(std::size_t way, double rows_for_flow) {
        ways_[way].ever += rows_for_flow;
        ways_[way].since_pause += rows_for_flow;
    }
    // A request is routed now: what counted() says from now on is for that one.
    void count_for(const RoutedRequest& request) {
        counts_ever_ = !request.others_run;
        if (!counts_ever_) return;
        for (Way& way : ways_) way.since_pause = 0;
    }
    double counted(std::size_t way) const {
        return counts_ever_ ? ways_[way].ever : ways_[way].since_pause;
    }

  private:
    struct Way {
        double ever = 0;
        double since_pause = 0;
    };
    std::vector<Way> ways_;
    bool counts_ever_ = false;
};

}  // namespace helix::core
