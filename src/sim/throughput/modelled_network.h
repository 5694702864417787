#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "spec/cluster_spec.h"

namespace helix::sim {

struct Passage {
    base::TimePoint begin;  // on the link
    base::TimePoint left;   // the last byte has left the link, which is free for the next message
    base::TimePoint end;    // and has passed the slowest of NICs, link and trunk
    base::TimePoint arrives;
};

// When messages arrive. A message takes its turn on the sender's NIC, the link, the trunk between
// the regions and the receiver's NIC, each a queue of its own speed; it has passed when the slowest
// has let it through, and arrives the link's latency later. Pairs without a link exchange small
// messages at once (the coordinator and a worker always have a connection).
class ModelledNetwork {
  public:
    explicit ModelledNetwork(const spec::ClusterSpec& cluster);
    // from, to: nodes or spec::kCoordinator.
    Passage send(std::int32_t from, std::int32_t to, double bytes, base::TimePoint now);
    bool has_link(std::int32_t from, std::int32_t to) const {
        return pairs_[index(from, to)].trunk != kNoLink;
    }

  private:
    struct Server {
        double s_per_byte = 0;
        base::TimePoint free;
    };
    static constexpr std::int32_t kNoTrunk = -1;
    static constexpr std::int32_t kNoLink = -2;
    struct Pair {
        Server link;
        base::Duration latency;
        std::int32_t trunk = kNoLink;  // index into trunks_
    };
    // A link that has carried something, of a node that has few of them.
    struct Used {
        std::int32_t to = 0;
        Pair pair;
    };
    static constexpr std::size_t kFewUsed = 8;
    static std::size_t vertex(std::int32_t node) { return static_cast<std::size_t>(node + 1); }
    std::size_t index(std::int32_t from, std::int32_t to) const {
        return vertex(from) * n_vertices_ + vertex(to);
    }

    Pair& used_pair(std::int32_t from, std::int32_t to);

    std::size_t n_vertices_;
    std::vector<Pair> pairs_;  // of a link all lies together: a large cluster has a million
    // By node: the first few of its links that were used, which then are these and not those in
    // pairs_. A large cluster's nodes use a few of a thousand, and these few fit a processor's
    // cache.
    std::vector<std::vector<Used>> used_;
    std::vector<Server> trunks_;
    std::vector<Server> nic_out_;  // by vertex
    std::vector<Server> nic_in_;
};

}  // namespace helix::sim
