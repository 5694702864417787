#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"
#include "spec/placement_file.h"
#include "spec/profile_tables.h"

namespace helix::cli {

// What `plan` and `simulate` are asked about: a cluster, a model, and where speeds come from.
struct ProblemArguments {
    std::string cluster;
    std::string model;
    std::string profiles;
    std::string machine_mix;
    std::string weights = "f16";

    void add_to(CLI::App& command);
};

struct Problem {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    std::optional<spec::ProfileTables> tables;  // with --profiles
    std::unique_ptr<spec::CostModel> own_costs;
    plan::CapacityTable capacities;

    const spec::CostModel& costs() const {
        return tables ? static_cast<const spec::CostModel&>(*tables) : *own_costs;
    }
};

base::Result<Problem> load_problem(const ProblemArguments& arguments);
// The same for a cluster that is not, or no longer, what the file says.
base::Result<Problem> make_problem(const ProblemArguments& arguments, spec::ClusterSpec cluster);

// A placement file for this very problem: as many layers as the model, no more nodes than the
// cluster; the placement is parallel to the cluster's nodes. Errors name the file.
base::Result<spec::PlacementFile> read_layout(const std::string& path, const Problem& problem);

}  // namespace helix::cli
