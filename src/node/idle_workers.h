#pragma once

#include <set>
#include <string>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::node {

// Tells of each worker that a plan has no layers for, and why: once, until it has layers or is
// gone.
class IdleWorkers {
  public:
    // The lines to log for this plan.
    std::vector<std::string> tell(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                  const spec::Placement& placement);

  private:
    std::set<std::string> told_;
};

}  // namespace helix::node
