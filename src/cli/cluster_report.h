#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "view/status/cluster_text.h"

namespace helix::cli {

// What GET /helix/cluster answered, for a picture. before: an earlier answer of the same server, by
// which rates are known; null: none. What is missing or of another type counts as 0 or nothing: the
// server may be of another version.
view::ShownCluster cluster_report(const std::string& server, const nlohmann::json& now,
                                  const nlohmann::json& before);

}  // namespace helix::cli
