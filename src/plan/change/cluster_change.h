#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

// Edits of a cluster, for what-if questions and advice.

namespace helix::plan {

// "L4@region-a", "3xL4@region-a", "L4x2" (one machine of two cards; a cluster without regions).
struct AddMachines {
    std::string type;
    std::string region;  // "" where the text names none
    std::int32_t count = 1;
    // Of its links to everybody, each way; without it as below.
    struct Network {
        double bandwidth_bytes_per_s = 0;
        double latency_s = 0;
    };
    std::optional<Network> network = {};
};

struct RemoveMachine {  // "node7"
    std::string node;
};

// "a:b=1Gbps" or, where the two have no link yet, "a:b=1Gbps,5ms". a and b are machines or
// "coordinator", or else two regions.
struct SetLink {
    std::string ends;  // "a:b"
    double bandwidth_bytes_per_s = 0;
    std::optional<double> latency_s;
};

struct UpgradeMachine {  // "node3=A100"
    std::string node;
    std::string type;
};

// The machine takes so many times as long for all that it computes; below 1 it is faster.
struct SlowMachine {
    std::string node;
    double factor = 1;  // above 0
};

using Change = std::variant<AddMachines, RemoveMachine, SetLink, UpgradeMachine, SlowMachine>;

base::Result<Change> parse_add(std::string_view text);
base::Result<Change> parse_remove(std::string_view text);
base::Result<Change> parse_link(std::string_view text);
base::Result<Change> parse_upgrade(std::string_view text);
std::string to_string(const Change& change);  // "add 3 x L4 in region-a"

struct ChangedCluster {
    spec::ClusterSpec cluster;
    std::vector<std::int32_t> origin;  // [node]: its index before, or -1 for a new one
};

// * add: memory, network and measurements of a machine of that type that is there (in the region by
//   preference), else of the machine of that name, else of the catalogue. Towards each other
//   machine and the coordinator it gets the commonest line that machines of its region have there;
//   towards the only machine of its region the commonest line within regions, or where there is
//   none that machine's fastest. Named "new-L4", "new-L4-2", ...
// * remove: its links go too.
// * link: both directions. Between regions every link there is between them, and their trunks.
// * upgrade: keeps name, place, host, network and links; memory and measurements as with add.
// * slow: only a machine that measured itself; of others nothing but the type is known.
// Errors name what is unknown and what is known.
base::Result<ChangedCluster> apply_change(const spec::ClusterSpec& cluster, const Change& change);
// One after the other; origin refers to the first.
base::Result<ChangedCluster> apply_changes(const spec::ClusterSpec& cluster,
                                           const std::vector<Change>& changes);

// The placement on the changed cluster: who stays keeps its layers, who is new has none.
spec::Placement carry_over(const spec::Placement& before, const std::vector<std::int32_t>& origin);

}  // namespace helix::plan
