#include "base/machine.h"

#include <gtest/gtest.h>

#include <map>

namespace helix::base::machine_test {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr const char* kV2Mount =
    "24 30 0:26 / /sys rw - sysfs sysfs rw\n"
    "30 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

// A machine with 64 GiB free, of which tests take away.
class FakeMachine {
  public:
    FakeMachine() {
        files["/proc/meminfo"] = "MemTotal: 99999999 kB\nMemAvailable:   67108864 kB\n";
        files["/proc/self/statm"] = "1000 500 100 10 0 300 0\n";
        limits.cores = 16;
    }
    Allowance allowance() const {
        return read_allowance(
            [this](const std::string& path) -> std::optional<std::string> {
                const auto found = files.find(path);
                if (found == files.end()) return std::nullopt;
                return found->second;
            },
            limits);
    }
    std::map<std::string, std::string> files;
    ProcessLimits limits;
};

TEST(MachineTest, WithoutControlGroupsItIsWhatTheMachineHasFree) {
    const FakeMachine machine;
    EXPECT_EQ(machine.allowance().memory_bytes, 65536 * kMiB);
    EXPECT_EQ(machine.allowance().memory_bound, "the machine");
    EXPECT_EQ(machine.allowance().threads, 16);
}

TEST(MachineTest, TheLowestLimitOnTheWayToTheRootCounts) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] = "0::/jobs/700m/inner\n";
    machine.files["/proc/self/mountinfo"] = kV2Mount;
    machine.files["/sys/fs/cgroup/jobs/700m/inner/memory.max"] = "max\n";
    machine.files["/sys/fs/cgroup/jobs/700m/memory.max"] = "734003200\n";
    machine.files["/sys/fs/cgroup/jobs/memory.max"] = "4294967296\n";
    EXPECT_EQ(machine.allowance().memory_bytes, 700 * kMiB);
    EXPECT_EQ(machine.allowance().memory_bound, "the control group /sys/fs/cgroup/jobs/700m");
    // What is used already is gone, but for pages of files.
    machine.files["/sys/fs/cgroup/jobs/700m/memory.current"] = "314572800\n";
    machine.files["/sys/fs/cgroup/jobs/700m/memory.stat"] =
        "anon 1\nfile 99\ninactive_file 104857600\nactive_file 52428800\n";
    EXPECT_EQ(machine.allowance().memory_bytes, 550 * kMiB);
    machine.files["/sys/fs/cgroup/jobs/memory.high"] = "104857600\n";
    EXPECT_EQ(machine.allowance().memory_bytes, 100 * kMiB);
}

TEST(MachineTest, AContainerSeesItsOwnGroupAsTheMountsRoot) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] = "0::/docker/abc\n";
    machine.files["/proc/self/mountinfo"] =
        "30 24 0:27 /docker/abc /sys/fs/cgroup ro shared:1 - cgroup2 cgroup rw\n";
    machine.files["/sys/fs/cgroup/memory.max"] = "734003200\n";
    machine.files["/sys/fs/cgroup/cpu.max"] = "250000 100000\n";
    EXPECT_EQ(machine.allowance().memory_bytes, 700 * kMiB);
    EXPECT_EQ(machine.allowance().threads, 2);
}

TEST(MachineTest, VersionOneHasAHierarchyForEachController) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] =
        "5:cpu,cpuacct:/box\n4:memory:/box\n1:name=systemd:/user.slice\n0::/user.slice\n";
    machine.files["/proc/self/mountinfo"] =
        "40 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 30 0:34 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
    machine.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
    machine.files["/sys/fs/cgroup/memory/box/memory.limit_in_bytes"] = "1073741824\n";
    machine.files["/sys/fs/cgroup/memory/box/memory.usage_in_bytes"] = "524288000\n";
    machine.files["/sys/fs/cgroup/memory/box/memory.stat"] =
        "cache 5\ntotal_inactive_file 104857600\n";
    machine.files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "-1\n";
    machine.files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"] = "100000\n";
    machine.files["/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us"] = "350000\n";
    machine.files["/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us"] = "100000\n";
    EXPECT_EQ(machine.allowance().memory_bytes, (1024 - 400) * kMiB);
    EXPECT_EQ(machine.allowance().threads, 3);
}

TEST(MachineTest, NumbersThatMeanNoLimitAreNone) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] = "0::/\n4:memory:/\n";
    machine.files["/proc/self/mountinfo"] =
        std::string(kV2Mount) + "40 30 0:33 / /v1 rw - cgroup cgroup rw,memory\n";
    machine.files["/sys/fs/cgroup/memory.max"] = "max\n";
    machine.files["/sys/fs/cgroup/cpu.max"] = "max 100000\n";
    for (const char* limit : {"9223372036854771712", "18446744073709551615", "-1", "nonsense"}) {
        machine.files["/v1/memory.limit_in_bytes"] = limit;
        EXPECT_EQ(machine.allowance().memory_bytes, 65536 * kMiB) << limit;
    }
    EXPECT_EQ(machine.allowance().threads, 16);
}

TEST(MachineTest, LessThanOneCoreIsStillOneThreadAndMoreThanAllIsNoBound) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] = "0::/\n";
    machine.files["/proc/self/mountinfo"] = kV2Mount;
    machine.files["/sys/fs/cgroup/cpu.max"] = "50000 100000\n";
    EXPECT_EQ(machine.allowance().threads, 1);
    machine.files["/sys/fs/cgroup/cpu.max"] = "9000000 100000\n";
    EXPECT_EQ(machine.allowance().threads, 16);
}

TEST(MachineTest, ResourceLimitsCountLessWhatIsMapped) {
    FakeMachine machine;
    machine.limits.address_bytes = 100 * kMiB;
    EXPECT_EQ(machine.allowance().memory_bytes, 100 * kMiB - 1000 * 4096);
    EXPECT_EQ(machine.allowance().memory_bound, "RLIMIT_AS");
    machine.limits.private_bytes = 50 * kMiB;
    EXPECT_EQ(machine.allowance().memory_bytes, 50 * kMiB - 300 * 4096);
    machine.limits.private_bytes = 1;
    EXPECT_EQ(machine.allowance().memory_bytes, 0);
}

TEST(MachineTest, ContentsThatMakeNoSenseAreLeftOut) {
    FakeMachine machine;
    machine.files["/proc/self/cgroup"] = "0::/../../other\nrubbish\n:\n7:memory\n";
    machine.files["/proc/self/mountinfo"] = std::string(kV2Mount) + "- - -\n1 2 3\n\n";
    machine.files["/proc/self/statm"] = "";
    machine.files["/sys/fs/cgroup/memory.max"] = "734003200\n";
    machine.files["/sys/fs/cgroup/memory.stat"] = "inactive_file 99999999999999999999\nactive_file";
    machine.files["/sys/fs/cgroup/cpu.max"] = "1 0\n";
    EXPECT_EQ(machine.allowance().memory_bytes, 700 * kMiB);
    EXPECT_EQ(machine.allowance().threads, 16);
    machine.files["/proc/meminfo"] = "";
    machine.limits.physical_bytes = 3 * kMiB;
    EXPECT_EQ(machine.allowance().memory_bytes, 3 * kMiB);
}

TEST(MachineTest, ThisProcessMayUseSomething) {
    EXPECT_GT(process_allowance().memory_bytes, 0);
    EXPECT_GE(usable_threads(), 1);
}

}  // namespace
}  // namespace helix::base::machine_test
