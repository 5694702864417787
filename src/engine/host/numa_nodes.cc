#include "engine/host/numa_nodes.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/split.h"

namespace helix::engine {
namespace {

constexpr int kMostCores = 4096;

bool parse_number(std::string_view text, int& value) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && at == end && value >= 0 && value < kMostCores;
}

std::size_t size_of(int n) {
    return static_cast<std::size_t>(n);
}

// Of the node that a core belongs to; nodes.size() when it is of none.
std::size_t node_of(int core, const NumaNodes& nodes) {
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        if (std::find(nodes[n].begin(), nodes[n].end(), core) != nodes[n].end()) return n;
    }
    return nodes.size();
}

// Part `rank` of `ranks` of [0, size), never empty where size > 0: parts overlap when there are
// more of them.
std::pair<std::size_t, std::size_t> part_of(int rank, int ranks, std::size_t size) {
    const std::size_t begin = size * size_of(rank) / size_of(ranks);
    const std::size_t end = size * (size_of(rank) + 1) / size_of(ranks);
    return {begin, std::max(end, std::min(begin + 1, size))};
}

}  // namespace

base::Result<std::vector<int>> parse_cpu_list(std::string_view text) {
    std::vector<int> cores;
    for (const std::string_view part : base::split(text, ',')) {
        const std::size_t dash = part.find('-');
        int first = 0;
        bool good = parse_number(part.substr(0, dash), first);
        int last = first;
        if (dash != std::string_view::npos) good &= parse_number(part.substr(dash + 1), last);
        if (!good || last < first) {
            return base::invalid(fmt::format("'{}' is no list of CPUs; write it like 0-3,8", text));
        }
        for (int core = first; core <= last; ++core) cores.push_back(core);
    }
    return cores;
}

std::vector<int> usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
    for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
    }
    return cores;
}

NumaNodes read_numa_nodes(const std::filesystem::path& folder, const std::vector<int>& usable) {
    std::map<int, std::vector<int>> found;
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        int number = 0;
        if (!name.starts_with("node") || !parse_number(std::string_view(name).substr(4), number))
            continue;
        std::ifstream file(entry->path() / "cpulist");
        std::string line;
        std::getline(file, line);
        auto cores = parse_cpu_list(line);
        if (!cores.ok()) continue;  // a node of memory only has an empty list
        std::erase_if(*cores, [&](int core) {
            return std::find(usable.begin(), usable.end(), core) == usable.end();
        });
        if (!cores->empty()) found[number] = std::move(*cores);
    }
    NumaNodes nodes;
    for (auto& [number, cores] : found) nodes.push_back(std::move(cores));
    return nodes;
}

NumaNodes read_numa_nodes() {
    return read_numa_nodes("/sys/devices/system/node", usable_cores());
}

ThreadPlaces place_threads(int threads, int ranks, const std::vector<int>& cpus,
                           const NumaNodes& nodes) {
    CHECK(ranks >= 1 && threads >= ranks);
    ThreadPlaces places;
    places.ranks = ranks;
    places.cores.resize(size_of(threads));
    places.several_nodes = ranks > 1 && nodes.size() > 1;
    std::vector<int> sorted = cpus;
    if (places.several_nodes) {
        std::stable_sort(sorted.begin(), sorted.end(),
                         [&](int a, int b) { return node_of(a, nodes) < node_of(b, nodes); });
    }
    std::vector<int> members(size_of(ranks), 0);
    for (int thread = 0; thread < threads; ++thread) {
        const int rank = thread * ranks / threads;
        std::vector<int>& cores = places.cores[size_of(thread)];
        if (!sorted.empty()) {
            const auto [begin, end] = part_of(rank, ranks, sorted.size());
            const std::size_t member = size_of(members[size_of(rank)]++);
            cores = {sorted[begin + member % (end - begin)]};
        } else if (places.several_nodes) {
            const auto [begin, end] = part_of(rank, ranks, nodes.size());
            for (std::size_t n = begin; n < end; ++n)
                cores.insert(cores.end(), nodes[n].begin(), nodes[n].end());
        }
    }
    return places;
}

}  // namespace helix::engine
