#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "spec/cluster_spec.h"
#include "spec/profile_tables.h"

// The paper's T_j, tokens/s (prompt and output alike) of a machine with j layers, computed from
// measured tables as its artifact does. It depends on the whole mix of machines: the batch a
// machine typically has follows from its share of a token's round trip.

namespace helix::plan {

// How many machines of each type there are: a mix.
using MachineCounts = std::map<std::string, std::int32_t>;

MachineCounts machine_counts(const spec::ClusterSpec& cluster);

// Reads one of the mixes of directory/machine_mixes.json, which is {"name": {"type": count}}.
base::Result<MachineCounts> read_machine_mix(const std::string& directory, const std::string& name);

// T_j of each type of the mix, [j] up to the most layers the tables allow. For llama2-70b and
// llama1-30b the published figures, bit for bit as far as the published rule rounds (Python's
// round: half to even). For other tables the constants that were written by hand there (layers a
// type typically holds, where the iteration starts) are derived: two thirds of the most layers, and
// the speed of its decode table. Errors: an empty mix, a type the tables lack, a mix whose batches
// round to nothing.
base::Result<spec::TypeThroughput> typical_throughput(const spec::ProfileTables& tables,
                                                      const MachineCounts& mix);

}  // namespace helix::plan
