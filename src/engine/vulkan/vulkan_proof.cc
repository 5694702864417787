#include "engine/vulkan/vulkan_proof.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/index.h"
#include "base/random.h"
#include "engine/kernels/kernels.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_pool.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

constexpr std::size_t kResults = 6;
constexpr const char* kNames[kResults] = {"fma",      "sum",  "product",
                                          "quotient", "root", "exponential"};

struct Case {
    float a, b, c;
};
using Results = std::array<float, kResults>;

// A float of random bits, with an exponent near 1's in half of all cases.
float any_float(base::Random& random) {
    const auto bits = static_cast<std::uint32_t>(random.next());
    if (random.chance(0.5)) return std::bit_cast<float>(bits);
    return std::bit_cast<float>((bits & 0x807fffffU) | ((120U + bits % 16U) << 23));
}

std::vector<Case> make_cases() {
    std::vector<Case> cases{
        // Rounded twice the product would be all that c takes away.
        {1 + 0x1p-23F, 1 + 0x1p-23F, -1 - 0x1p-22F},
        {1 + 0x1p-12F, 1 - 0x1p-12F, -1},
        // Halfway between two floats but for c: as a double it is, rounded to nearest, a tie.
        {1 + 0x1p-12F, 1 + 0x1p-12F, 0x1p-60F},
        {1 + 0x1p-12F, 1 + 0x1p-12F, -0x1p-60F},
        {3.0F, 7.0F, 0x1p-70F},
        {0x1p127F, 2.0F, -0x1p127F},
        {0x1p-100F, 0x1p-40F, 0.0F},
        {0x1.8p-126F, 0.5F, -0x1p-126F},
        {0x1p-149F, 1.0F, 0x1p-148F},
        {0x1p-149F, 0x1p-149F, 1.0F},
        {0.0F, -1.0F, -0.0F},
        {std::numeric_limits<float>::infinity(), 2.0F, 1.0F},
    };
    base::Random random(42);
    while (cases.size() < 2000) {
        Case made{any_float(random), any_float(random), any_float(random)};
        if (random.chance(0.3)) made.c = -made.a * made.b;
        if (random.chance(0.3)) made.c = static_cast<float>(random.uniform() * 180 - 90);
        cases.push_back(made);
    }
    return cases;
}

Results expected(const Case& of) {
    const float root = of.a < 0 ? std::numeric_limits<float>::quiet_NaN() : std::sqrt(of.a);
    Results r{std::fma(of.a, of.b, of.c), of.a + of.c, of.a * of.b, of.a / of.b, root, 0.0F};
    ops::kernels(ops::Isa::portable).exp_row(&of.c, 1, 0.0F, 1.0F, &r[5]);
    return r;
}

bool is_subnormal(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL;
}

bool same(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Of each kind of result: wrong where no number is subnormal, and wrong at all.
struct Wrong {
    std::array<int, kResults> normal{};
    int with_subnormals = 0;
    std::string first;
};

Wrong compare(std::span<const Case> cases, std::span<const float> results) {
    Wrong wrong;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case& of = cases[i];
        const Results right = expected(of);
        for (std::size_t k = 0; k < kResults; ++k) {
            const float got = results[kResults * i + k];
            if (same(got, right[k])) continue;
            if (is_subnormal(of.a) || is_subnormal(of.b) || is_subnormal(of.c) ||
                is_subnormal(right[k]) || std::abs(of.a * of.b) < 0x1p-125F) {
                ++wrong.with_subnormals;
            } else {
                ++wrong.normal[k];
                if (wrong.first.empty()) {
                    wrong.first = fmt::format("{} of {}, {}, {} is {}, not {}", kNames[k], of.a,
                                              of.b, of.c, got, right[k]);
                }
            }
        }
    }
    return wrong;
}

base::Result<std::vector<float>> run_cases(const std::shared_ptr<VulkanContext>& context,
                                           std::span<const Case> cases) {
    TRY(auto commands, VulkanCommands::create(context));
    const auto pool = std::make_shared<VulkanPool>(context, 0);
    std::vector<float> results(cases.size() * kResults);
    TRY(const VulkanMemoryPart y, pool->take(4 * std::ssize(results)));
    {
        VulkanCommands::Operator record(*commands);
        struct {
            VkDeviceAddress x, y;
            std::uint32_t count;
        } const push{record.put(cases), y.slice().address(),
                     static_cast<std::uint32_t>(cases.size())};
        record.dispatch(shaders::prove, push, {});
    }
    TRY_VOID(commands->download(y.slice(), std::as_writable_bytes(std::span(results)).data()));
    return results;
}

}  // namespace

base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context) {
    const std::vector<Case> cases = make_cases();
    VulkanProof proof;
    proof.integer_dot = context->info().integer_dot;
    context->use_exact_fma(false);
    TRY(std::vector<float> results, run_cases(context, cases));
    Wrong wrong = compare(cases, results);
    const auto name = [&] {
        return fmt::format("Vulkan device {} ({})", context->info().index, context->info().name);
    };
    proof.fused_fma = wrong.normal[0] == 0 && wrong.normal[5] == 0;
    if (!proof.fused_fma) {
        if (!context->info().doubles) {
            return base::invalid(name() +
                                 " has neither a fused fma nor doubles (shaderFloat64) "
                                 "to compute one with");
        }
        context->use_exact_fma(true);
        TRY(results, run_cases(context, cases));
        wrong = compare(cases, results);
    }
    if (!wrong.first.empty()) return base::invalid(name() + " computes wrongly: " + wrong.first);
    proof.keeps_subnormals = wrong.with_subnormals == 0;
    return proof;
}

}  // namespace helix::engine
