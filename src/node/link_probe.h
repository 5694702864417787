#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/time.h"
#include "net/zmq_frame.h"
#include "spec/cluster_spec.h"
#include "wire/messages.h"

namespace helix::node {

// Measures links one after the other with Ping and Pong: latency with empty messages, bandwidth in
// each direction with padded ones. A target that does not answer in time is left out.
class LinkProbe {
  public:
    // Sends a Ping with this much padding to target (kCoordinator or a worker id).
    using Send =
        std::function<void(std::int32_t target, const wire::Ping& ping, std::uint32_t padding)>;

    LinkProbe(std::int32_t self, std::deque<std::int32_t> targets, Send send);
    void start(base::TimePoint now);
    void on_pong(base::TimePoint now, std::uint64_t id);
    void on_time(base::TimePoint now);
    bool done() const { return targets_.empty(); }
    // The links that were measured, in both directions.
    const std::vector<spec::LinkSpec>& links() const { return links_; }

  private:
    void send_next(base::TimePoint now);
    void finish_target(base::TimePoint now);

    std::int32_t self_;
    std::deque<std::int32_t> targets_;
    Send send_;
    std::vector<spec::LinkSpec> links_;
    std::uint64_t next_id_ = 1;
    base::TimePoint sent_;
    base::TimePoint target_since_;
    int step_ = 0;
    std::uint32_t padding_ = 0;
    double round_trip_s_ = 0;  // of the quickest empty Ping
    double out_s_ = 0;
    double in_s_ = 0;
};

// Zeros that all pings share; bytes is at most wire::kMaxPingBytes.
net::Frame padding_frame(std::uint32_t bytes);

}  // namespace helix::node
