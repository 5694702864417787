#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/kv_type.h"
#include "spec/model_spec.h"
#include "spec/placement_file.h"
#include "spec/profile_tables.h"

// What is planned and simulated: a cluster, a model, and how fast the one runs the other.

namespace helix::lab {

// Where a problem comes from: files, and names that the catalogues know.
struct ProblemSource {
    std::string cluster;      // a cluster file
    std::string model;        // a name, a GGUF file, a folder of safetensors or a config.json
    std::string profiles;     // folder of measured tables; "": datasheet figures
    std::string machine_mix;  // one of the folder's machine_mixes.json; "": the cluster's machines
    std::string weights = "f16";               // of a model by name or config.json
    std::optional<spec::KvType> kv_type = {};  // absent: f16, or what the tables were measured with
};

struct Problem {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    std::optional<spec::KvType> kv_type = {};   // that was asked for
    std::optional<spec::ProfileTables> tables;  // where measured tables were given
    std::unique_ptr<spec::CostModel> own_costs;
    plan::CapacityTable capacities;

    const spec::CostModel& costs() const {
        return tables ? static_cast<const spec::CostModel&>(*tables) : *own_costs;
    }
};

// Errors: files that cannot be read or do not fit together, a model that is not known.
base::Result<Problem> load_problem(const ProblemSource& source);
// The same for a cluster that is not, or no longer, what the file says.
base::Result<Problem> make_problem(const ProblemSource& source, spec::ClusterSpec cluster);

// The same for a model and machines of which everything is known already: measurements, or a type
// of the catalogue. Errors: a machine has neither, or its type needs more of the model.
base::Result<Problem> make_problem(const spec::ModelSpec& model, spec::ClusterSpec cluster);

// A placement file for this very problem: as many layers as the model, no more nodes than the
// cluster, KV of no other type; the placement is parallel to the cluster's nodes. Errors name the
// file.
base::Result<spec::PlacementFile> read_layout(const std::string& path, const Problem& problem);

// Refuses a layout's file that is for KV of another type than the problem's.
base::Status check_kv_type(const std::string& path, const spec::PlacementFile& file,
                           const Problem& problem);

}  // namespace helix::lab
