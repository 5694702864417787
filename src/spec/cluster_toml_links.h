#pragma once

#include "spec/cluster_spec.h"
#include "spec/toml_file.h"

namespace helix::spec {

// Reads the [links] of a cluster file (cluster_file.h): expands its rules into one LinkSpec for
// each ordered pair that some rule names, sorted by (from, to), and into the trunks. The cluster
// must have its machines and its coordinator's region already.
base::Status read_toml_links(const TomlFile& file, const toml::table& root, ClusterSpec& cluster);

}  // namespace helix::spec
