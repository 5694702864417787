#include "base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/split.h"

namespace helix::base {
namespace {

constexpr std::uint64_t kMaxSystemFileBytes = std::uint64_t{16} << 20U;
// Version 1 writes its largest number of pages where there is no limit.
constexpr std::int64_t kHuge = std::int64_t{1} << 60;
constexpr std::int64_t kPageBytes = 4096;  // size of statm's pages, where the system does not say

std::optional<std::int64_t> number_in(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range) return kNoLimit;
    if (error != std::errc{} || at != end) return std::nullopt;
    return value;
}

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

bool has_item(std::string_view list, std::string_view item) {
    const std::vector<std::string_view> items = split(list, ',');
    return std::find(items.begin(), items.end(), item) != items.end();
}

// One hierarchy of control groups that this process is in.
struct Hierarchy {
    bool second = false;  // version 2
    std::string mounted;  // the folder that it is mounted at
    std::string path;     // path of this process' group below it: "" or "/..."
};

// The folders of a process' groups, its own first, the hierarchy's root last.
std::vector<std::string> groups_of(const Hierarchy& hierarchy) {
    std::vector<std::string> groups;
    std::string path = hierarchy.path;
    while (!path.empty()) {
        groups.push_back(hierarchy.mounted + path);
        path.resize(path.rfind('/'));
    }
    groups.push_back(hierarchy.mounted);
    return groups;
}

// The group's path as seen below the mount: a container's mount shows its own group as the root.
std::string below(const std::string& path, const std::string& root) {
    std::string rest = path;
    if (root != "/") {
        const bool inside =
            path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
        rest = inside ? path.substr(root.size()) : "";
    }
    while (!rest.empty() && rest.back() == '/') rest.pop_back();
    if (rest.find("/..") != std::string::npos || !rest.starts_with('/')) return "";
    return rest;
}

// Where the controller's groups of this process are; version 2 has all controllers in one tree.
std::vector<Hierarchy> hierarchies(const FileContents& contents, std::string_view controller) {
    std::optional<std::string> first;
    std::optional<std::string> second;
    std::istringstream groups(contents("/proc/self/cgroup").value_or(""));
    for (std::string line; std::getline(groups, line);) {
        const std::size_t one = line.find(':');
        const std::size_t two = one == std::string::npos ? one : line.find(':', one + 1);
        if (two == std::string::npos) continue;
        const std::string_view names = std::string_view(line).substr(one + 1, two - one - 1);
        if (names.empty()) second = line.substr(two + 1);
        if (has_item(names, controller)) first = line.substr(two + 1);
    }
    std::vector<Hierarchy> found;
    std::istringstream mounts(contents("/proc/self/mountinfo").value_or(""));
    for (std::string line; std::getline(mounts, line);) {
        const std::vector<std::string> words = words_of(line);
        const auto dash = std::find(words.begin(), words.end(), "-");
        if (words.size() < 6 || words.end() - dash < 4) continue;
        if (dash[1] == "cgroup2" && second) {
            found.push_back({true, words[4], below(*second, words[3])});
        } else if (dash[1] == "cgroup" && first && has_item(dash[3], controller)) {
            found.push_back({false, words[4], below(*first, words[3])});
        }
    }
    return found;
}

// The sum of the values that lines of "name value" give for these names.
std::int64_t sum_of(const std::string& text, std::initializer_list<std::string_view> names) {
    std::int64_t sum = 0;
    std::istringstream lines(text);
    std::string name;
    std::string value;
    while (lines >> name >> value) {
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        sum += std::clamp<std::int64_t>(number_in(value).value_or(0), 0, kHuge);
    }
    return sum;
}

struct Bound {
    std::int64_t bytes = kNoLimit;
    std::string name;
};

void lower(Bound& bound, std::int64_t bytes, const std::string& name) {
    if (bytes >= bound.bytes) return;
    bound = {std::max<std::int64_t>(bytes, 0), name};
}

void lower_by_group(const FileContents& contents, const std::string& group, bool second,
                    Bound& bound) {
    const auto number = [&](const char* file) {
        return number_in(contents(group + "/" + file).value_or(""));
    };
    std::int64_t limit = number(second ? "memory.max" : "memory.limit_in_bytes").value_or(kNoLimit);
    if (second) limit = std::min(limit, number("memory.high").value_or(kNoLimit));
    if (limit >= kHuge || limit < 0) return;
    const std::int64_t used =
        number(second ? "memory.current" : "memory.usage_in_bytes").value_or(0);
    const std::string stat = contents(group + "/memory.stat").value_or("");
    const std::int64_t files = second ? sum_of(stat, {"inactive_file", "active_file"})
                                      : sum_of(stat, {"total_inactive_file", "total_active_file"});
    lower(bound, limit - std::clamp<std::int64_t>(used - files, 0, kHuge),
          "the control group " + group);
}

void lower_by_machine(const FileContents& contents, const ProcessLimits& limits, Bound& bound) {
    std::istringstream lines(contents("/proc/meminfo").value_or(""));
    std::string word;
    while (lines >> word) {
        std::int64_t kib = 0;
        if (word == "MemAvailable:" && lines >> kib && kib > 0 && kib < kHuge / 1024) {
            return lower(bound, kib * 1024, "the machine");
        }
    }
    lower(bound, limits.physical_bytes, "the machine");
}

// Lowers the allowance to what the resource limits leave. The pages of statm that count against
// them are used already.
void lower_by_limits(const FileContents& contents, const ProcessLimits& limits, Bound& bound) {
    const std::vector<std::string> pages = words_of(contents("/proc/self/statm").value_or(""));
    const auto used = [&](std::size_t column) {
        if (column >= pages.size()) return std::int64_t{0};
        const std::int64_t count = number_in(pages[column]).value_or(0);
        return std::clamp<std::int64_t>(count, 0, kHuge / kPageBytes) * kPageBytes;
    };
    if (limits.address_bytes < kHuge) lower(bound, limits.address_bytes - used(0), "RLIMIT_AS");
    if (limits.private_bytes < kHuge) lower(bound, limits.private_bytes - used(5), "RLIMIT_DATA");
}

// How many cores' time a group may use; nullopt: no limit.
std::optional<double> quota_of(const FileContents& contents, const std::string& group,
                               bool second) {
    std::optional<std::int64_t> quota;
    std::optional<std::int64_t> period;
    if (second) {
        const std::vector<std::string> words = words_of(contents(group + "/cpu.max").value_or(""));
        if (words.size() != 2) return std::nullopt;
        quota = number_in(words[0]);  // "max" is no number
        period = number_in(words[1]);
    } else {
        quota = number_in(contents(group + "/cpu.cfs_quota_us").value_or(""));
        period = number_in(contents(group + "/cpu.cfs_period_us").value_or(""));
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

ProcessLimits process_limits() {
    ProcessLimits limits;
    limits.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
        limits.cores = std::max(1, CPU_COUNT(&set));
    }
    limits.physical_bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
    const auto limit_of = [](auto resource) {
        rlimit limit = {};
        if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
        return static_cast<std::int64_t>(
            std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit)));
    };
    limits.address_bytes = limit_of(RLIMIT_AS);
    limits.private_bytes = limit_of(RLIMIT_DATA);
    return limits;
}

}  // namespace

Allowance read_allowance(const FileContents& contents, const ProcessLimits& limits) {
    Bound bound;
    lower_by_machine(contents, limits, bound);
    for (const Hierarchy& hierarchy : hierarchies(contents, "memory")) {
        for (const std::string& group : groups_of(hierarchy)) {
            lower_by_group(contents, group, hierarchy.second, bound);
        }
    }
    lower_by_limits(contents, limits, bound);
    double cores = std::max(1, limits.cores);
    for (const Hierarchy& hierarchy : hierarchies(contents, "cpu")) {
        for (const std::string& group : groups_of(hierarchy)) {
            cores = std::min(cores, quota_of(contents, group, hierarchy.second).value_or(cores));
        }
    }
    return {bound.bytes, bound.name, std::max(1, static_cast<int>(std::floor(cores)))};
}

std::optional<std::string> system_file(const std::string& path) {
    auto text = read_file(path, kMaxSystemFileBytes);
    if (!text.ok()) return std::nullopt;
    return std::move(*text);
}

Allowance process_allowance() {
    return read_allowance(system_file, process_limits());
}

int usable_threads() {
    static const int threads = process_allowance().threads;
    return threads;
}

}  // namespace helix::base
