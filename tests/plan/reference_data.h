#pragma once

#include <gtest/gtest.h>

#include <string>

#include "paper_data.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_file.h"
#include "spec/placement_file.h"
#include "spec/profile_tables.h"

// The paper's 70B problems (data/paper).

namespace helix::plan {

inline std::string data_path(const std::string& rest) {
    return kPaperData + "/" + rest;
}

struct ReferenceProblem {
    spec::ClusterSpec cluster;
    spec::ProfileTables tables;
    CapacityTable capacities;
    const spec::ModelSpec& model() const { return tables.model(); }
};

inline ReferenceProblem reference_problem(const std::string& cluster) {
    auto read = spec::read_cluster_file(data_path("clusters/" + cluster + ".json"));
    EXPECT_TRUE(read.ok());
    auto tables = spec::ProfileTables::read(data_path("profiles"), "llama2-70b");
    EXPECT_TRUE(tables.ok());
    const auto throughput = spec::read_node_throughput(
        data_path("profiles"), "llama2-70b", cluster == "distributed24" ? "single24" : cluster);
    EXPECT_TRUE(throughput.ok());
    auto capacities = capacity_from_tables(*read, *tables, *throughput);
    EXPECT_TRUE(capacities.ok());
    return {std::move(*read), std::move(*tables), std::move(*capacities)};
}

inline spec::PlacementFile published_layout(const std::string& name) {
    auto layout = spec::read_placement_file(data_path("layouts/" + name + ".json"));
    EXPECT_TRUE(layout.ok());
    return std::move(*layout);
}

}  // namespace helix::plan
