#include "sim/faults/fault_network.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace helix::sim {

base::TimePoint FaultNetwork::arrival(base::TimePoint now, Link& link, double bytes) const {
    const double times = link.slow.value;
    const base::TimePoint start = std::max(now, link.free);
    link.free = start + base::from_seconds(bytes / bytes_per_s_ * times);
    // A link that is fast again does not overtake itself.
    link.last_arrival =
        std::max(link.last_arrival, link.free + base::from_seconds(latency_s_ * times));
    return link.last_arrival;
}

std::vector<FaultNetwork::Arrival> FaultNetwork::send(base::TimePoint now, std::int32_t from,
                                                      std::int32_t to, double bytes,
                                                      Deliver deliver) {
    Link& link = links_[{from, to}];
    deliver = [this, &link, breaks = link.breaks, whole = std::move(deliver)] {
        if (link.breaks == breaks) return whole();
        ++lost_;
    };
    if (link.cuts > 0 && !link.drops) {
        ++held_back_;
        link.held.emplace_back(bytes, std::move(deliver));
        return {};
    }
    const bool lost = losing_.value > 0 && random_.chance(losing_.value);
    if (lost || link.cuts > 0) {
        ++lost_;
        return {};
    }
    std::vector<Arrival> arrivals;
    if (duplicating_.value > 0 && random_.chance(duplicating_.value)) {
        ++duplicated_;
        arrivals.push_back({arrival(now, link, bytes), deliver, false});
        // From at once to a second later, by which time much can have changed.
        const double later = std::exp2(-12 * random_.uniform());
        arrivals.push_back(
            {arrivals.front().when + base::from_seconds(later), std::move(deliver), true});
    } else {
        arrivals.push_back({arrival(now, link, bytes), std::move(deliver), false});
    }
    return arrivals;
}

void FaultNetwork::cut(std::int32_t from, std::int32_t to, bool drops) {
    Link& link = links_[{from, to}];
    ++link.cuts;
    ++cuts_;
    link.drops = link.drops || drops;
}

std::vector<FaultNetwork::Arrival> FaultNetwork::mend(base::TimePoint now, std::int32_t from,
                                                      std::int32_t to) {
    Link& link = links_[{from, to}];
    CHECK(link.cuts > 0);
    --cuts_;
    std::vector<Arrival> arrivals;
    if (--link.cuts > 0) return arrivals;
    link.drops = false;
    for (auto& [bytes, deliver] : link.held) {
        arrivals.push_back({arrival(now, link, bytes), std::move(deliver), false});
    }
    link.held.clear();
    return arrivals;
}

void FaultNetwork::break_link(std::int32_t a, std::int32_t b) {
    for (Link* link : {&links_[{a, b}], &links_[{b, a}]}) {
        ++link->breaks;
        lost_ += static_cast<std::int64_t>(link->held.size());
        link->held.clear();
    }
}

void FaultNetwork::slow(std::int32_t from, std::int32_t to, double times) {
    links_[{from, to}].slow.begin(times);
}

void FaultNetwork::not_slow(std::int32_t from, std::int32_t to) {
    links_[{from, to}].slow.end(1);
}

base::TimePoint FaultNetwork::last_arrival() const {
    base::TimePoint last;
    for (const auto& [ends, link] : links_) last = std::max(last, link.last_arrival);
    return last;
}

bool FaultNetwork::is_cut(std::int32_t from, std::int32_t to) const {
    const auto it = links_.find({from, to});
    return it != links_.end() && it->second.cuts > 0;
}

}  // namespace helix::sim
