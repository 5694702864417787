#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace helix::core {

// In which order the waiting requests of several clients run. Each client has a share of its own:
// what it has asked for is counted in tokens, and a request waits behind what its own client asked
// for before, not behind what another did. This is what deficit round robin does in rounds, said as
// one number for each request that never changes while it lives (start-time fair queueing): lower
// goes first, equal ones by arrival. A request that comes back to the queue is in its place again.
// Of one client alone, or of nobody in particular, requests run in the order of their arrival.
class FairShares {
  public:
    // For a request of this many tokens that has come now; client 0: nobody in particular.
    std::uint64_t enter(std::int32_t priority, std::uint64_t client, std::int64_t tokens);
    // It starts: whoever comes from now on does not go before it. What a client did not use while
    // it asked for nothing it has no claim to.
    void started(std::int32_t priority, std::uint64_t place);
    // Clients that are remembered.
    std::size_t clients() const { return next_.size(); }

  private:
    using Client = std::pair<std::int32_t, std::uint64_t>;  // (priority, client)
    std::map<std::int32_t, std::uint64_t> now_;  // by priority: the place that started last
    std::map<Client, std::uint64_t> next_;       // where its next request begins
    std::size_t forget_at_ = 64;
};

}  // namespace helix::core
