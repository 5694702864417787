#include "plan/problem/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace helix::plan {
namespace {

constexpr double kGiga = 1e9;

struct Share {
    const char* type;
    std::int32_t of_42;
    double memory_gb;
};

constexpr Share kMix[] = {{"A100", 4, 40}, {"V100", 6, 16}, {"L4", 8, 24},  {"L4x2", 4, 48},
                          {"T4", 10, 16},  {"T4x2", 6, 32}, {"T4x4", 4, 64}};

// What each machine is, in the proportions of the mix at any length, then shuffled.
std::vector<const Share*> deal(std::int32_t machines, base::Random& random) {
    std::vector<const Share*> kinds;
    std::vector<double> due(std::size(kMix), 0.0);
    while (static_cast<std::int32_t>(kinds.size()) < machines) {
        for (std::size_t t = 0; t < std::size(kMix); ++t) due[t] += kMix[t].of_42 / 42.0;
        const auto most = std::max_element(due.begin(), due.end());
        *most -= 1;
        kinds.push_back(&kMix[most - due.begin()]);
    }
    for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[random.below(i)]);
    return kinds;
}

}  // namespace

spec::ClusterSpec generate_cluster(std::int32_t machines, std::int32_t regions, std::uint64_t seed,
                                   double between_bytes_per_s) {
    CHECK(machines > 0 && regions > 0 && between_bytes_per_s > 0);
    base::Random random(seed);
    spec::ClusterSpec cluster;
    cluster.name = fmt::format("generated-{}-in-{}", machines, regions);
    const std::vector<const Share*> kinds = deal(machines, random);
    for (std::int32_t i = 0; i < machines; ++i) {
        const Share& kind = *kinds[static_cast<std::size_t>(i)];
        spec::NodeSpec node;
        node.name = fmt::format("node{}", i);
        node.type = kind.type;
        node.region = fmt::format("region{}", i % regions);
        node.memory_bytes = static_cast<std::int64_t>(kind.memory_gb * kGiga);
        node.nic_in_bytes_per_s = node.nic_out_bytes_per_s = 10 * kGiga;
        cluster.nodes.push_back(std::move(node));
    }
    cluster.coordinator_nic_in_bytes_per_s = cluster.coordinator_nic_out_bytes_per_s = 10 * kGiga;
    for (std::int32_t from = spec::kCoordinator; from < machines; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < machines; ++to) {
            if (from == to) continue;
            const bool inside = from != spec::kCoordinator && to != spec::kCoordinator &&
                                from % regions == to % regions;
            const double spread = 2 * random.uniform() - 1;
            cluster.links.push_back(
                {from, to,
                 inside ? 1.25 * kGiga * (1 + 0.1 * spread)
                        : between_bytes_per_s * (1 + 0.2 * spread),
                 inside ? 0.001 : 0.05 * (1 + 0.2 * (2 * random.uniform() - 1))});
        }
    }
    return cluster;
}

}  // namespace helix::plan
