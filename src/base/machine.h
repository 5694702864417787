#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

// What this process may use of its machine. The machine's own memory and cores are only one bound:
// a container or a service has less, and is killed or throttled for using more.

namespace helix::base {

// The whole content of a file, nullopt when it cannot be read.
using FileContents = std::function<std::optional<std::string>(const std::string& path)>;

// That of a file of this machine's operating system.
std::optional<std::string> system_file(const std::string& path);

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// What the operating system says without a file.
struct ProcessLimits {
    int cores = 1;                          // that this process may run on
    std::int64_t physical_bytes = 0;        // for a kernel that does not say what is free
    std::int64_t address_bytes = kNoLimit;  // RLIMIT_AS
    std::int64_t private_bytes = kNoLimit;  // RLIMIT_DATA
    bool operator==(const ProcessLimits&) const = default;
};

struct Allowance {
    // Memory that can still be taken: the least of what is free on the machine, what the control
    // groups of this process leave (the lowest on the way to the root; pages of files count as
    // free, as they do for the machine), and what its resource limits leave. Not below 0.
    std::int64_t memory_bytes = 0;
    std::string memory_bound;  // "the machine", "the control group /sys/fs/...", "RLIMIT_AS"
    // Threads that can run at the same time: cores, or what the CPU quota allows, rounded down. At
    // least 1.
    int threads = 1;
};

// The allowance by what files say: /proc/meminfo, /proc/self/{cgroup,mountinfo,statm} and those of
// the control groups, of version 1 and 2.
Allowance read_allowance(const FileContents& contents, const ProcessLimits& limits);

// The allowance of this process, now.
Allowance process_allowance();
inline std::int64_t usable_memory_bytes() {
    return process_allowance().memory_bytes;
}
// How many threads are worth starting; asked once, as quotas and affinity rarely change.
int usable_threads();

}  // namespace helix::base
