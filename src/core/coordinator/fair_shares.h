#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace helix::core {

// FairShares says in which order the waiting requests of several clients run. Each client has a
// share of its own: what it has asked for is counted in tokens, and a request waits behind what its
// own client asked for before, not behind what another did. This is what deficit round robin does
// in rounds, said as one number for each request that never changes while it lives (start-time fair
// queueing). Requests with lower numbers go first, and equal ones by arrival. A request that comes
// back to the queue is in its place again. While there is one client alone, or none in particular,
// requests run in the order of their arrival.
class FairShares {
  public:
    // Returns the place of a request of this many tokens that has come now. Client 0 is nobody in
    // particular.
    std::uint64_t enter(std::int32_t priority, std::uint64_t client, std::int64_t tokens);
    // The request at this place starts, and whoever comes from now on does not go before it. A
    // client has no claim to what it did not use while it asked for nothing.
    void started(std::int32_t priority, std::uint64_t place);
    // Returns how many clients are remembered.
    std::size_t clients() const { return next_.size(); }

  private:
    using Client = std::pair<std::int32_t, std::uint64_t>;  // (priority, client)
    std::map<std::int32_t, std::uint64_t> now_;  // by priority, the place that started last
    std::map<Client, std::uint64_t> next_;       // where the client's next request begins
    std::size_t forget_at_ = 64;
};

}  // namespace helix::core
