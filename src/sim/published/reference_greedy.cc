#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "sim/published/reference_routing.h"

// The published baselines know no plan: each endpoint sends over links that
// are free at the moment, with all the bandwidth that is free, and a prompt's way becomes its
// route.

namespace helix::sim {

double free_bandwidth(const ReferenceWorld& world, std::int32_t l) {
    const ReferenceLinkState& link = world.link(l);
    const ReferenceEndpoint& from = world.endpoint(link.from);
    const double share = from.nic_out_bytes_per_s / static_cast<double>(from.out.size()) -
                         (link.bandwidth_bytes_per_s - link.available_bytes_per_s);
    return std::min({share, from.out_available_bytes_per_s, link.available_bytes_per_s,
                     world.endpoint(link.to).in_available_bytes_per_s});
}

namespace {

struct FreeLink {
    std::int32_t link = 0;
    double bytes_per_s = 0;
    bool taken = false;
    QueryId takes = 0;
};

void find_free_links(const ReferenceWorld& world, std::int32_t e, std::vector<FreeLink>& out) {
    out.clear();
    for (const std::int32_t l : world.endpoint(e).out) {
        const double bytes_per_s = free_bandwidth(world, l);
        if (bytes_per_s > kSlowestLinkBytesPerS) out.push_back({l, bytes_per_s, false, 0});
    }
}

// SWARM: each endpoint deals prompts to its links by priorities that grow by a running mean of how
// long the link's node took for a request.
class SwarmRouting final : public ReferenceRouting {
  public:
    explicit SwarmRouting(ReferenceWorld& world) : world_(world) {
        links_.resize(static_cast<std::size_t>(world.n_links()));
        unseen_.resize(static_cast<std::size_t>(world.n_endpoints()));
        priorities_.resize(unseen_.size());
        for (std::int32_t l = 0; l < world.n_links(); ++l) {
            priorities_[static_cast<std::size_t>(world.link(l).from)].emplace(kInitial, l);
        }
    }

    bool issue(QueryId) override { return true; }
    void finished(QueryId) override {}
    bool wants_more(bool after_prompt) override { return !after_prompt; }
    void wait(std::int32_t e, QueryId id) override {
        unseen_[static_cast<std::size_t>(e)].push_back(id);
    }
    void transmit(std::int32_t e) override;

  private:
    static constexpr double kInitial = 0.05;
    static constexpr double kSmoothing = 0.8;
    struct Link {
        double mean_s = kInitial;
        std::deque<QueryId> queue;
    };

    std::int32_t deal(std::int32_t e) {
        auto& queue = priorities_[static_cast<std::size_t>(e)];
        const auto [priority, l] = *queue.begin();
        queue.erase(queue.begin());
        queue.emplace(priority + links_[static_cast<std::size_t>(l)].mean_s, l);
        return l;
    }

    ReferenceWorld& world_;
    std::vector<Link> links_;
    std::vector<std::vector<QueryId>> unseen_;  // at each endpoint, not dealt yet
    std::vector<std::set<std::pair<double, std::int32_t>>> priorities_;
    std::vector<FreeLink> free_;
    std::set<std::int32_t> again_;  // endpoints that learned something
};

void SwarmRouting::transmit(std::int32_t e) {
    std::vector<QueryId>& unseen = unseen_[static_cast<std::size_t>(e)];
    again_.clear();
    if (e != world_.coordinator()) {
        for (const QueryId id : unseen) {
            const ReferenceQuery& query = world_.query(id);
            const std::int32_t from = query.route[query.hop - 1];
            double& mean_s = links_[static_cast<std::size_t>(from)].mean_s;
            mean_s = kSmoothing * (world_.now_s() - query.sent_s) + (1 - kSmoothing) * mean_s;
            again_.insert(world_.link(from).from);
        }
    }
    for (const QueryId id : unseen) {
        ReferenceQuery& query = world_.query(id);
        if (query.is_prompt()) query.route.push_back(deal(e));
        links_[static_cast<std::size_t>(query.route[query.hop])].queue.push_back(id);
    }
    unseen.clear();
    find_free_links(world_, e, free_);
    for (const FreeLink& free : free_) {
        std::deque<QueryId>& queue = links_[static_cast<std::size_t>(free.link)].queue;
        if (queue.empty()) continue;
        const QueryId id = queue.front();
        queue.pop_front();
        world_.send(free.link, id, free.bytes_per_s);
    }
    for (const std::int32_t endpoint : again_) world_.transmit_later(endpoint);
}

class RandomRouting final : public ReferenceRouting {
  public:
    RandomRouting(ReferenceWorld& world, bool shortest_queue)
        : world_(world), shortest_queue_(shortest_queue) {
        waiting_.resize(static_cast<std::size_t>(world.n_endpoints()));
    }

    bool issue(QueryId) override { return true; }
    void finished(QueryId) override {}
    bool wants_more(bool after_prompt) override { return !after_prompt; }
    void wait(std::int32_t e, QueryId id) override {
        waiting_[static_cast<std::size_t>(e)].push_back(id);
    }
    void transmit(std::int32_t e) override;

  private:
    void mark_allowed(std::int32_t e);
    bool assign_prompt(QueryId id);
    bool assign_decode(QueryId id);

    ReferenceWorld& world_;
    bool shortest_queue_;
    std::vector<std::vector<QueryId>> waiting_;  // at each endpoint, in order
    std::vector<FreeLink> free_;
    std::vector<bool> allowed_;  // parallel to free_
    std::vector<std::size_t> shuffled_;
};

// Links to the nodes with the fewest requests before their first layer; the coordinator has none.
void RandomRouting::mark_allowed(std::int32_t e) {
    allowed_.assign(free_.size(), !shortest_queue_);
    if (!shortest_queue_) return;
    std::size_t shortest = std::numeric_limits<std::size_t>::max();
    std::vector<std::int32_t> best;
    for (const std::int32_t l : world_.endpoint(e).out) {
        const std::int32_t to = world_.link(l).to;
        if (to == world_.coordinator()) {
            best.push_back(l);
            break;
        }
        const std::size_t length = world_.waiting_at_entry(to);
        if (length > shortest) continue;
        if (length < shortest) best.clear();
        shortest = length;
        best.push_back(l);
    }
    for (std::size_t f = 0; f < free_.size(); ++f) {
        allowed_[f] = std::find(best.begin(), best.end(), free_[f].link) != best.end();
    }
}

bool RandomRouting::assign_prompt(QueryId id) {
    shuffled_.resize(free_.size());
    for (std::size_t f = 0; f < free_.size(); ++f) shuffled_[f] = f;
    world_.random().shuffle(shuffled_);
    for (const std::size_t f : shuffled_) {
        if (free_[f].taken || !allowed_[f]) continue;
        world_.query(id).route.push_back(free_[f].link);
        free_[f].taken = true;
        free_[f].takes = id;
        return true;
    }
    return false;
}

bool RandomRouting::assign_decode(QueryId id) {
    const ReferenceQuery& query = world_.query(id);
    for (FreeLink& free : free_) {
        if (free.taken || free.link != query.route[query.hop]) continue;
        free.taken = true;
        free.takes = id;
        return true;
    }
    return false;
}

void RandomRouting::transmit(std::int32_t e) {
    std::vector<QueryId>& waiting = waiting_[static_cast<std::size_t>(e)];
    if (waiting.empty()) return;
    find_free_links(world_, e, free_);
    mark_allowed(e);
    std::size_t left = 0;
    for (const QueryId id : waiting) {
        const bool goes = world_.query(id).is_prompt() ? assign_prompt(id) : assign_decode(id);
        if (!goes) waiting[left++] = id;
    }
    waiting.resize(left);
    for (const FreeLink& free : free_) {
        if (free.taken) world_.send(free.link, free.takes, free.bytes_per_s);
    }
}

}  // namespace

std::unique_ptr<ReferenceRouting> make_swarm_routing(ReferenceWorld& world) {
    return std::make_unique<SwarmRouting>(world);
}

std::unique_ptr<ReferenceRouting> make_random_routing(ReferenceWorld& world, bool shortest_queue) {
    return std::make_unique<RandomRouting>(world, shortest_queue);
}

}  // namespace helix::sim
