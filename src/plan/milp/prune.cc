#include "plan/milp/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/check.h"

namespace helix::plan {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct Named {
    double bandwidth = 0;
    std::string name;
    Pair ends;
};

// The fastest of `links`, by the rule of prune_links.
void keep_fastest(std::vector<Named> links, const PruneOptions& options, std::set<Pair>& kept) {
    std::sort(links.begin(), links.end(), [](const Named& a, const Named& b) {
        return a.bandwidth != b.bandwidth ? a.bandwidth > b.bandwidth : a.name > b.name;
    });
    std::int32_t count = 0;
    for (const Named& link : links) {
        const bool wanted =
            count < options.min_keep ||
            (count < options.max_keep && link.bandwidth >= options.threshold_bytes_per_s);
        if (!wanted) break;
        kept.insert(link.ends);
        ++count;
    }
}

}  // namespace

std::vector<Pair> prune_links(const spec::ClusterSpec& cluster, const PruneOptions& options,
                              const std::vector<Pair>& keep) {
    CHECK(options.min_keep >= 0 && options.max_keep >= options.min_keep);
    std::map<Pair, double> between;  // smaller node first -> the slower direction
    std::vector<Named> out;
    std::vector<Named> in;
    for (const spec::LinkSpec& link : cluster.links) {
        const Pair ends{link.from, link.to};
        if (link.from == spec::kCoordinator && link.to == spec::kCoordinator) continue;
        if (link.from == spec::kCoordinator) {
            out.push_back(
                {link.bandwidth_bytes_per_s, fmt::format("link-source-{}", link.to), ends});
        } else if (link.to == spec::kCoordinator) {
            in.push_back(
                {link.bandwidth_bytes_per_s, fmt::format("link-{}-sink", link.from), ends});
        } else {
            const auto [found, fresh] =
                between.emplace(Pair{std::min(link.from, link.to), std::max(link.from, link.to)},
                                link.bandwidth_bytes_per_s);
            if (!fresh) found->second = std::min(found->second, link.bandwidth_bytes_per_s);
        }
    }
    std::vector<std::vector<Named>> of_node(cluster.nodes.size());
    for (const auto& [ends, bandwidth] : between) {
        const Named named{bandwidth, fmt::format("link-{}-{}", ends.first, ends.second), ends};
        of_node[static_cast<std::size_t>(ends.first)].push_back(named);
        of_node[static_cast<std::size_t>(ends.second)].push_back(named);
    }
    std::set<Pair> kept;
    keep_fastest(std::move(out), options, kept);
    keep_fastest(std::move(in), options, kept);
    for (std::vector<Named>& links : of_node) keep_fastest(std::move(links), options, kept);
    // A link between nodes counts once, whatever its direction.
    const auto key_of = [](const Pair& ends) {
        const bool inside = ends.first != spec::kCoordinator && ends.second != spec::kCoordinator;
        return inside ? Pair{std::min(ends.first, ends.second), std::max(ends.first, ends.second)}
                      : ends;
    };
    for (const Pair& ends : keep) kept.insert(key_of(ends));
    std::vector<Pair> result;
    for (const spec::LinkSpec& link : cluster.links) {
        const Pair ends{link.from, link.to};
        if (kept.contains(key_of(ends))) result.push_back(ends);
    }
    std::sort(result.begin(), result.end());
    return result;
}

}  // namespace helix::plan
