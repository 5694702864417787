#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "spec/cluster_spec.h"

namespace helix::sim {

struct Passage {
    base::TimePoint begin;  // on the link
    base::TimePoint end;
    base::TimePoint arrives;
};

// When messages arrive. A message takes its turn on the sender's NIC, the link, the trunk between
// the regions and the receiver's NIC, each a queue of its own speed; it has passed when the slowest
// has let it through, and arrives the link's latency later. Pairs without a link exchange small
// messages at once (the coordinator and a worker always have a connection).
class HelixNetwork {
  public:
    explicit HelixNetwork(const spec::ClusterSpec& cluster);
    // from, to: nodes or spec::kCoordinator.
    Passage send(std::int32_t from, std::int32_t to, double bytes, base::TimePoint now);
    bool has_link(std::int32_t from, std::int32_t to) const { return pair(from, to).link >= 0; }

  private:
    struct Server {
        double s_per_byte = 0;
        base::TimePoint free;
    };
    struct Pair {
        std::int32_t link = -1;   // index into servers_; -1 = none
        std::int32_t trunk = -1;  // likewise
        base::Duration latency;
    };
    std::size_t vertex(std::int32_t node) const { return static_cast<std::size_t>(node + 1); }
    const Pair& pair(std::int32_t from, std::int32_t to) const {
        return pairs_[vertex(from) * n_vertices_ + vertex(to)];
    }
    std::int32_t add_server(double bytes_per_s);

    std::size_t n_vertices_;
    std::vector<Pair> pairs_;
    std::vector<Server> servers_;
    std::vector<std::int32_t> nic_out_;  // by vertex, index into servers_
    std::vector<std::int32_t> nic_in_;
};

}  // namespace helix::sim
