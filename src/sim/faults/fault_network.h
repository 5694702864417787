#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"

namespace helix::sim {

// The directed links between machines, by vertex number. A link carries messages one after the
// other and keeps their order; it can be slow, cut (what is sent is held back, as a transport that
// repeats does, or dropped), lose messages or deliver them twice.
class FaultNetwork {
  public:
    using Deliver = std::function<void()>;
    struct Arrival {
        base::TimePoint when;
        Deliver deliver;
        bool again = false;  // the second of a message that was duplicated
    };

    FaultNetwork(std::uint64_t seed, double latency_s, double bytes_per_s)
        : random_(seed), latency_s_(latency_s), bytes_per_s_(bytes_per_s) {}

    // When it arrives, if it does: none, one or two.
    std::vector<Arrival> send(base::TimePoint now, std::int32_t from, std::int32_t to, double bytes,
                              Deliver deliver);

    // Each may be set by several faults at a time: the latest counts until all have ended.
    void cut(std::int32_t from, std::int32_t to, bool drops);
    std::vector<Arrival> mend(base::TimePoint now, std::int32_t from, std::int32_t to);
    // What is under way between them, in both directions, is lost.
    void break_link(std::int32_t a, std::int32_t b);
    void slow(std::int32_t from, std::int32_t to, double times);
    void not_slow(std::int32_t from, std::int32_t to);
    void lose(double share) { losing_.begin(share); }
    void not_lose() { losing_.end(0); }
    void duplicate(double share) { duplicating_.begin(share); }
    void not_duplicate() { duplicating_.end(0); }

    bool is_cut(std::int32_t from, std::int32_t to) const;
    bool any_cut() const { return cuts_ > 0; }
    // When everything under way will have arrived, but second copies.
    base::TimePoint last_arrival() const;
    std::int64_t lost() const { return lost_; }
    std::int64_t duplicated() const { return duplicated_; }
    std::int64_t held_back() const { return held_back_; }

  private:
    // What overlapping faults of one kind do.
    struct Level {
        int depth = 0;
        double value = 0;
        void begin(double v) {
            ++depth;
            value = v;
        }
        void end(double neutral) {
            if (--depth == 0) value = neutral;
        }
    };
    struct Link {
        base::TimePoint free;
        base::TimePoint last_arrival;
        std::uint64_t breaks = 0;
        int cuts = 0;
        bool drops = false;
        Level slow{0, 1};
        std::vector<std::pair<double, Deliver>> held;
    };

    base::TimePoint arrival(base::TimePoint now, Link& link, double bytes) const;

    base::Random random_;
    double latency_s_;
    double bytes_per_s_;
    std::map<std::pair<std::int32_t, std::int32_t>, Link> links_;
    Level losing_;
    Level duplicating_;
    int cuts_ = 0;
    std::int64_t lost_ = 0;
    std::int64_t duplicated_ = 0;
    std::int64_t held_back_ = 0;
};

}  // namespace helix::sim
