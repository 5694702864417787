#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "paper_data.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"

// The paper's clusters, models and tables (data/paper).

namespace helix::plan {

struct PublishedProblem {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    CapacityTable capacities;
};

// `mix`: the machine mix that the T_j stand under.
inline PublishedProblem published_problem(const std::string& cluster, const std::string& model,
                                          const std::string& mix) {
    const std::string data = kPaperData;
    PublishedProblem problem;
    auto read = spec::read_cluster_file(data + "/clusters/" + cluster + ".json");
    EXPECT_TRUE(read.ok()) << read.error().message;
    problem.cluster = std::move(*read);
    const auto tables = spec::ProfileTables::read(data + "/profiles", model);
    EXPECT_TRUE(tables.ok()) << tables.error().message;
    const auto throughput = spec::read_node_throughput(data + "/profiles", model, mix);
    EXPECT_TRUE(throughput.ok()) << throughput.error().message;
    auto capacities = capacity_from_tables(problem.cluster, *tables, *throughput);
    EXPECT_TRUE(capacities.ok()) << capacities.error().message;
    problem.capacities = std::move(*capacities);
    problem.model = tables->model();
    return problem;
}

}  // namespace helix::plan
