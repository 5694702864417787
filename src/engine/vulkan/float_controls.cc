#include "engine/vulkan/float_controls.h"

#include <array>

#include "base/check.h"

namespace helix::engine {
namespace {

// As the specification of SPIR-V numbers them.
constexpr std::uint32_t kOpEntryPoint = 15;
constexpr std::uint32_t kOpExecutionMode = 16;
constexpr std::uint32_t kOpCapability = 17;
constexpr std::size_t kHeaderWords = 5;

struct FloatControl {
    std::uint32_t capability, mode;
};
constexpr FloatControl kDenormFlushToZero{4465, 4460};
constexpr FloatControl kSignedZeroInfNanPreserve{4466, 4461};

constexpr std::uint32_t instruction(std::uint32_t words, std::uint32_t opcode) {
    return words << 16 | opcode;
}

}  // namespace

std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> code,
                                               const VulkanFloatControls& controls) {
    std::vector<FloatControl> wanted;
    if (controls.flushes_subnormals) wanted.push_back(kDenormFlushToZero);
    if (controls.keeps_nan) wanted.push_back(kSignedZeroInfNanPreserve);
    std::vector<std::uint32_t> made(code.begin(), code.begin() + kHeaderWords);
    for (const FloatControl& control : wanted) {
        made.push_back(instruction(2, kOpCapability));
        made.push_back(control.capability);
    }
    for (std::size_t at = kHeaderWords; at < code.size();) {
        const std::uint32_t words = code[at] >> 16;
        CHECK(words > 0 && at + words <= code.size());
        made.insert(made.end(), code.begin() + static_cast<std::ptrdiff_t>(at),
                    code.begin() + static_cast<std::ptrdiff_t>(at + words));
        if ((code[at] & 0xffffU) == kOpEntryPoint) {
            for (const FloatControl& control : wanted) {
                const std::uint32_t entry_point = code[at + 2];
                for (const std::uint32_t word : std::array<std::uint32_t, 4>{
                         instruction(4, kOpExecutionMode), entry_point, control.mode, 32})
                    made.push_back(word);
            }
        }
        at += words;
    }
    return made;
}

}  // namespace helix::engine
