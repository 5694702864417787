#pragma once

#include <string>

#include "base/result.h"
#include "spec/cluster_spec.h"

namespace helix::cli {

inline constexpr const char* kRoleHelp =
    "prefill: computes prompts, whose requests then move on; decode: what follows; both";

// --role; errors name the words that are known.
base::Result<spec::NodeRole> role_of(const std::string& word);

}  // namespace helix::cli
