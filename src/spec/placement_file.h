#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "spec/kv_type.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

namespace helix::spec {

// A placement on disk: JSON of the schema "helix-layout-1". Node ids are indices into the cluster's
// nodes; a node the file does not name is left out. "source" and "sink" in the file are
// kCoordinator here.
struct PlacementFile {
    std::string cluster;
    std::string model;
    std::string method;
    std::int32_t n_layers = 0;
    Placement placement;                  // its roles are beyond the schema
    std::vector<std::string> node_types;  // parallel to placement, or empty
    std::vector<std::string> node_names;  // beyond the schema; parallel to placement, or empty
    std::vector<std::pair<std::int32_t, std::int32_t>> links;  // directed; (from, to)
    std::vector<LinkFlow> flows;                               // beyond the schema; may be empty
    std::optional<ServingPolicy> policy = {};  // beyond the schema; absent: the usual one
    std::optional<KvType> kv_type = {};        // beyond the schema; absent: whatever is asked for
    std::optional<double> max_flow_tokens_per_s;
};

base::Result<PlacementFile> read_placement_file(const std::string& path);
base::Status write_placement_file(const std::string& path, const PlacementFile& file);

// file is only used in messages. The ranges that it returns lie within [0, n_layers).
base::Result<PlacementFile> parse_placement_json(std::string_view text, const std::string& file);
std::string placement_to_json(const PlacementFile& file);

}  // namespace helix::spec
