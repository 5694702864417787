#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/cluster_spec.h"

// Cluster files: JSON of the schema "helix-cluster-1" (exchange), and TOML (for people). Both give
// links sorted by (from, to). Every error names the file, the place in it and what was expected.
//
// In TOML every quantity is a string with its unit (units.h), and unknown keys are errors:
//
//     name = "office"
//     [coordinator]                # optional
//     region = "cellar"            # for links by region
//     nic = "10 Gbit/s"            # or nic_in, nic_out; without: never binds
//     [types.A100]                 # optional: what machines of a type share
//     memory = "40 GB"
//     nic = "80 Gbit/s"
//     [[machines]]
//     name = "rack"                # with count: rack-0, rack-1, ...; without a name: the type
//     type = "A100"
//     count = 2                    # 1 if not given
//     region = "cellar"
//     host = ""                    # machines with one host share its cores
//     core_share = 1               # the part of them that it computes with
//     role = "prefill"             # "prefill", "decode" or "both": prompts, what follows, both
//     memory = "24 GB"             # here or in the type; without it, memory and nic are those of
//                                  # the catalogue's machine of this type (catalogue.h)
//     decode_per_layer = "1.2 ms"  # optional measurements, as NodeSpec has them
//     decode_batch8_per_layer = "3 ms"
//     prefill_per_token_layer = "20 us"
//     [links]                      # pairs that nothing names have no link
//     default = {bandwidth = "1 Gbit/s", latency = "1 ms"}
//     same_region = {bandwidth = "10 Gbit/s", latency = "200 us"}
//     [[links.regions]]
//     between = ["cellar", "roof"] # or from = "..", to = ".." for one direction
//     bandwidth = "100 Mbit/s"
//     latency = "50 ms"
//     [[links.trunks]]             # as regions, and one line that all of its links share
//     between = ["cellar", "roof"] # or from = "..", to = ".." for one direction
//     bandwidth = "1 Gbit/s"
//     latency = "50 ms"
//     links = true                 # false: only the shared limit, no links from this rule
//     [[links.pairs]]              # wins over regions, those over trunks, those over same_region,
//                                  # that over default
//     between = ["rack-0", "coordinator"]  # or from = "..", to = ".." for one direction
//     bandwidth = "1 Gbit/s"
//     latency = "1 ms"
//
// JSON may go beyond the schema. A node without memory, in a file without vram_bytes of its type,
// is the catalogue's machine of its type. A node may have name, host, device, core_share, role,
// memory_bytes and the measured fields of NodeSpec. Links that differ by direction stand in
// directed_links {from, to: node id or "coordinator"}. Trunks stand in trunks [{from_region,
// to_region, bandwidth_bytes_per_s, latency_ms}], one entry for each direction, and are only the
// shared limit; the coordinator may have a region.

namespace helix::spec {

// Reads JSON or TOML by the ending of the path, .json or .toml.
base::Result<ClusterSpec> read_cluster_file(const std::string& path);
base::Status write_cluster_file(const std::string& path, const ClusterSpec& cluster);

// file is only used in messages.
base::Result<ClusterSpec> parse_cluster_json(std::string_view text, const std::string& file);
base::Result<ClusterSpec> parse_cluster_toml(std::string_view text, const std::string& file);
std::string cluster_to_json(const ClusterSpec& cluster);
std::string cluster_to_toml(const ClusterSpec& cluster);

// Checks that names are unique and not "coordinator", that memory and bandwidths are above 0, and
// that links have different existing ends, at most one each way; trunks likewise between regions.
// Sorts links and trunks.
base::Status finish_cluster(ClusterSpec& cluster, const std::string& file);

}  // namespace helix::spec
