#include "base/processor.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/split.h"

namespace helix::base {
namespace {

struct ArmCore {
    std::string_view part;
    std::string_view name;
};
// MIDR_EL1.PartNum of the cores that Arm designed, as their technical reference manuals have it.
constexpr ArmCore kArmCores[] = {
    {"0xd03", "Cortex-A53"},   {"0xd04", "Cortex-A35"},  {"0xd05", "Cortex-A55"},
    {"0xd07", "Cortex-A57"},   {"0xd08", "Cortex-A72"},  {"0xd09", "Cortex-A73"},
    {"0xd0a", "Cortex-A75"},   {"0xd0b", "Cortex-A76"},  {"0xd0c", "Neoverse-N1"},
    {"0xd0d", "Cortex-A77"},   {"0xd40", "Neoverse-V1"}, {"0xd41", "Cortex-A78"},
    {"0xd42", "Cortex-A78AE"}, {"0xd44", "Cortex-X1"},   {"0xd46", "Cortex-A510"},
    {"0xd47", "Cortex-A710"},  {"0xd48", "Cortex-X2"},   {"0xd49", "Neoverse-N2"},
    {"0xd4f", "Neoverse-V2"},
};
constexpr std::string_view kDesignedByArm = "0x41";

// Without white space, and the zero that ends a text of the device tree, at its ends.
std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank(" \t\r\n\0", 5);
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string core_name(std::string_view designer, std::string_view part) {
    for (const ArmCore& core : kArmCores) {
        if (designer == kDesignedByArm && part == core.part) return std::string(core.name);
    }
    return "core " + std::string(part) + " of designer " + std::string(designer);
}

}  // namespace

std::string read_processor_name(const FileContents& contents) {
    const std::string info = contents("/proc/cpuinfo").value_or("");
    const std::string board = contents("/sys/firmware/devicetree/base/model").value_or("");
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
        if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
        names.push_back(std::move(name));
    };
    add(std::string(trimmed(board)));
    std::string_view designer;
    for (const std::string_view line : split(info, '\n')) {
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        const std::string_view key = trimmed(line.substr(0, colon));
        const std::string_view value = trimmed(line.substr(colon + 1));
        if (key == "model name" && !value.empty()) return std::string(value);
        if (key == "CPU implementer") designer = value;
        if (key == "CPU part") add(core_name(designer, value));
    }
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

std::string processor_name() {
    return read_processor_name(system_file);
}

}  // namespace helix::base
