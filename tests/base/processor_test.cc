#include "base/processor.h"

#include <gtest/gtest.h>

#include <map>

namespace helix::base::processor_test {
namespace {

std::string name_by(const std::map<std::string, std::string>& files) {
    return read_processor_name([&](const std::string& path) -> std::optional<std::string> {
        const auto found = files.find(path);
        if (found == files.end()) return std::nullopt;
        return found->second;
    });
}

constexpr const char* kInfo = "/proc/cpuinfo";
constexpr const char* kBoard = "/sys/firmware/devicetree/base/model";

std::string arm_core(int number, const std::string& designer, const std::string& part) {
    return "processor\t: " + std::to_string(number) +
           "\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU implementer\t: " +
           designer + "\nCPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: " + part +
           "\nCPU revision\t: 1\n\n";
}

TEST(Processor, IsTheModelNameWhereTheKernelHasOne) {
    EXPECT_EQ(name_by({{kInfo,
                        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\n"
                        "model name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\n\n"
                        "processor\t: 1\nmodel name\t: another\n"}}),
              "Intel(R) Xeon(R) Platinum 8480+");
}

TEST(Processor, OfArm64IsTheBoardAndItsKindsOfCores) {
    const std::string four = arm_core(0, "0x41", "0xd0b") + arm_core(1, "0x41", "0xd0b");
    EXPECT_EQ(
        name_by({{kInfo, four}, {kBoard, std::string("Raspberry Pi 5 Model B Rev 1.0\0", 31)}}),
        "Raspberry Pi 5 Model B Rev 1.0, Cortex-A76");
    EXPECT_EQ(name_by({{kInfo, arm_core(0, "0x41", "0xd0c")}}), "Neoverse-N1")
        << "servers have no device tree";
    EXPECT_EQ(name_by({{kInfo, arm_core(0, "0x41", "0xd05") + arm_core(1, "0x41", "0xd44")}}),
              "Cortex-A55, Cortex-X1");
    EXPECT_EQ(name_by({{kInfo, arm_core(0, "0x61", "0xd0c")}}), "core 0xd0c of designer 0x61")
        << "a number is its designer's";
}

TEST(Processor, HasNoNameWhereNothingSaysIt) {
    EXPECT_EQ(name_by({}), "");
    EXPECT_EQ(name_by({{kInfo, "model name\t:\nno colon\n"}, {kBoard, ""}}), "");
}

}  // namespace
}  // namespace helix::base::processor_test
