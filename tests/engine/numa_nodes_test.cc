#include "engine/host/numa_nodes.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace helix::engine::test::numa_nodes_test {
namespace {

namespace fs = std::filesystem;
using Cores = std::vector<std::vector<int>>;

// A folder as the kernel shows its nodes, that goes away with the test.
class NodeFolder {
  public:
    NodeFolder() : path_(fs::path(testing::TempDir()) / ("nodes_" + std::to_string(getpid()))) {
        fs::create_directories(path_);
        std::ofstream(path_ / "possible") << "0-3\n";
    }
    ~NodeFolder() { fs::remove_all(path_); }
    NodeFolder(const NodeFolder&) = delete;
    NodeFolder& operator=(const NodeFolder&) = delete;

    void add(const std::string& name, const std::string& cpulist) {
        fs::create_directories(path_ / name);
        std::ofstream(path_ / name / "cpulist") << cpulist << "\n";
    }
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

TEST(NumaNodes, ACpuListIsRangesAndNumbers) {
    EXPECT_EQ(*parse_cpu_list("0"), (std::vector<int>{0}));
    EXPECT_EQ(*parse_cpu_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
    for (const char* text :
         {"", ",", "1,", "-1", "3-1", "1-", "a", "0 1", "4096", "0-99999999999"}) {
        const auto cores = parse_cpu_list(text);
        ASSERT_FALSE(cores.ok()) << text;
        EXPECT_NE(cores.error().message.find("'" + std::string(text) + "'"), std::string::npos);
    }
}

TEST(NumaNodes, NodesAreReadInOrderWithTheirUsableCores) {
    NodeFolder folder;
    folder.add("node10", "6-7");
    folder.add("node0", "0-3");
    folder.add("node2", "");  // memory only
    folder.add("node3", "4-5");
    folder.add("nodes", "9");
    const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(read_numa_nodes(folder.path(), all), (NumaNodes{{0, 1, 2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(read_numa_nodes(folder.path(), {1, 2, 7}), (NumaNodes{{1, 2}, {7}}));
    EXPECT_TRUE(read_numa_nodes(folder.path() / "absent", all).empty());
}

TEST(NumaNodes, OfThisMachineHaveUsableCoresOnly) {
    const std::vector<int> usable = usable_cores();
    EXPECT_FALSE(usable.empty());
    for (const std::vector<int>& node : read_numa_nodes()) {
        EXPECT_FALSE(node.empty());
        for (const int core : node) {
            EXPECT_NE(std::find(usable.begin(), usable.end(), core), usable.end()) << core;
        }
    }
}

TEST(ThreadPlaces, WithoutCpusOnlyRanksOnSeveralNodesArePinned) {
    const NumaNodes two{{0, 1, 2, 3}, {4, 5, 6, 7}};
    EXPECT_EQ(place_threads(3, 1, {}, two).cores, Cores(3));
    EXPECT_EQ(place_threads(3, 3, {}, {{0, 1, 2, 3}}).cores, Cores(3));
    EXPECT_EQ(place_threads(3, 3, {}, {}).cores, Cores(3));
    EXPECT_FALSE(place_threads(3, 1, {}, two).several_nodes);
    EXPECT_FALSE(place_threads(3, 3, {}, {}).several_nodes);
    const ThreadPlaces spread = place_threads(5, 2, {}, two);
    EXPECT_TRUE(spread.several_nodes);
    EXPECT_EQ(spread.cores, (Cores{two[0], two[0], two[0], two[1], two[1]}));
}

TEST(ThreadPlaces, RanksShareNodesAndHaveSeveralWhereTheNumbersDiffer) {
    const NumaNodes two{{0, 1}, {2, 3}};
    EXPECT_EQ(place_threads(4, 4, {}, two).cores, (Cores{two[0], two[0], two[1], two[1]}));
    const NumaNodes four{{0}, {1}, {2}, {3}};
    EXPECT_EQ(place_threads(2, 2, {}, four).cores, (Cores{{0, 1}, {2, 3}}));
    const NumaNodes three{{0}, {1}, {2}};
    EXPECT_EQ(place_threads(2, 2, {}, three).cores, (Cores{{0}, {1, 2}}));
}

TEST(ThreadPlaces, CpusAreDealtOutToRanksByNode) {
    // As before ranks: thread i has cpus[i % size].
    EXPECT_EQ(place_threads(3, 1, {5, 4}, {}).cores, (Cores{{5}, {4}, {5}}));
    EXPECT_EQ(place_threads(4, 2, {0, 1, 2, 3}, {}).cores, (Cores{{0}, {1}, {2}, {3}}));
    // Neighbours of the same node, as many machines number them.
    const NumaNodes odd_even{{0, 2, 4, 6}, {1, 3, 5, 7}};
    EXPECT_EQ(place_threads(4, 2, {0, 1, 2, 3}, odd_even).cores, (Cores{{0}, {2}, {1}, {3}}));
    EXPECT_EQ(place_threads(4, 2, {0, 1}, odd_even).cores, (Cores{{0}, {0}, {1}, {1}}));
    // Fewer cores than ranks.
    EXPECT_EQ(place_threads(2, 2, {3}, odd_even).cores, (Cores{{3}, {3}}));
}

}  // namespace
}  // namespace helix::engine::test::numa_nodes_test
