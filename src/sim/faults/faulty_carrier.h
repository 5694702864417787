#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/cluster/carrier.h"
#include "sim/cluster/virtual_clock.h"
#include "sim/faults/fault_network.h"
#include "sim/faults/probes.h"

namespace helix::sim {

// A message that is sent, and what becomes of it.
struct Letter {
    std::int64_t number = 0;  // from 1: since the postman came
    std::int32_t from = 0;    // worker id, or spec::kCoordinator
    std::int32_t to = 0;
    const char* what = "";
};
struct Fate {
    bool lost = false;
    bool twice = false;
    double late_s = 0;  // more than it takes; others overtake it
};

// Carries messages over a network with faults, and notes which kinds of messages they met.
class FaultyCarrier final : public Carrier {
  public:
    enum class Kind { assign, rows, free, tokens, ready, stuck, report, fork, swap, kv };

    struct Config {
        std::uint64_t seed = 0;
        double latency_s = 0;
        double bytes_per_s = 0;
        double activation_bytes = 0;  // per row
    };
    // Both must outlive it.
    FaultyCarrier(const Config& config, VirtualClock& clock, Probes& probes);

    void send(SimMessage message) override { send(message, kind_of(message)); }
    void send(const SimMessage& message, Kind kind);  // noted as one of this kind
    // What is no message of core: it happens as often as it arrives.
    void send(std::int32_t from, std::int32_t to, double bytes, Kind kind,
              std::function<void()> deliver);
    FaultNetwork& network() { return network_; }
    const FaultNetwork& network() const { return network_; }
    // network().cut(from, to, ...) ends.
    void mend(std::int32_t from, std::int32_t to);
    // Decides about every message from now on. May begin faults.
    void set_postman(std::function<Fate(const Letter&)> postman) { postman_ = std::move(postman); }

  private:
    static Kind kind_of(const SimMessage& message);
    double bytes_of(const SimMessage& message) const;
    void release(std::vector<FaultNetwork::Arrival> arrivals);

    Config config_;
    VirtualClock& clock_;
    Probes& probes_;
    FaultNetwork network_;
    std::function<Fate(const Letter&)> postman_;
    std::int64_t letters_ = 0;
};

}  // namespace helix::sim
