#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <variant>

#include "core/protocol/messages.h"
#include "sim/cluster/compute.h"

namespace helix::sim {

// A message under way between two machines, or a machine and the coordinator.
struct SimMessage {
    core::WorkerId worker;          // whom it is for, or who says it to the coordinator
    std::uint64_t incarnation = 0;  // of that worker, as the sender knows it
    std::uint64_t term = 0;         // of the coordinator that it is from or for
    std::variant<core::WorkerMessage, core::CoordinatorMessage> content;
    std::int32_t from = 0;  // vertices of the network
    std::int32_t to = 0;
    Rows payload = {};
};

// What carries messages: a network that says when each arrives, if it does, and how often.
class Carrier {
  public:
    using Receiver = std::function<void(SimMessage&&)>;
    using Expecter = std::function<void(const SimMessage&, int)>;

    Carrier() = default;
    Carrier(const Carrier&) = delete;
    Carrier& operator=(const Carrier&) = delete;
    virtual ~Carrier() = default;

    virtual void send(SimMessage message) = 0;
    // Is called with each message that arrives.
    void set_receiver(Receiver receiver) { receive_ = std::move(receiver); }
    // Is called with messages that will arrive next, as Preparation is, if at all.
    void set_expecter(Expecter expecter) { expect_ = std::move(expecter); }

  protected:
    Receiver receive_;
    Expecter expect_;
};

}  // namespace helix::sim
