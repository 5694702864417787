#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"

// Which cores are near which memory, and where the threads of tensor parallel ranks run.

namespace helix::engine {

// The cores of each memory node. Nodes without cores are left out.
using NumaNodes = std::vector<std::vector<int>>;

// "0-3,8" is 0, 1, 2, 3, 8. invalid: no such list, or a core above 4095.
base::Result<std::vector<int>> parse_cpu_list(std::string_view text);

// The cores that this process may run on.
std::vector<int> usable_cores();

// What the kernel says in a folder like /sys/devices/system/node, by node number and of the usable
// cores only. Empty when it does not say.
NumaNodes read_numa_nodes(const std::filesystem::path& folder, const std::vector<int>& usable);
// Of this machine and process.
NumaNodes read_numa_nodes();

struct ThreadPlaces {
    int ranks = 1;
    // That each thread may run on; empty = any. Thread t belongs to rank t * ranks / threads.
    std::vector<std::vector<int>> cores;
    bool several_nodes = false;  // ranks are spread over memory nodes
};

// cpus: cores to pin each thread to, in turn; empty = not pinned, unless there are several nodes
// and ranks. Ranks are spread over the nodes in order; several ranks share a node, or a rank has
// several nodes, where the numbers differ. 1 <= ranks <= threads.
ThreadPlaces place_threads(int threads, int ranks, const std::vector<int>& cpus,
                           const NumaNodes& nodes);

}  // namespace helix::engine
