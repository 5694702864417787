#include "engine/vulkan/vulkan_proof.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/index.h"
#include "base/random.h"
#include "engine/host/flushed_subnormals.h"
#include "engine/kernels/kernels.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_pool.h"
#include "model/quant/half.h"
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
        // Rounded to 24 bits these are just below the least normal number, and just it.
        {0x1.fffffep-64F, 0x1p-63F, 0.0F},
        {0x1.fffffep-64F, 0x1.000002p-64F, 0x1p-149F},
        {0x1.fffffep-127F, 1.0F, 0x1p-149F},
        {0x1p-126F, -0.5F, 0x1.8p-127F},
        {-0x1p-140F, 0x1p100F, -0x1p-126F},
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
    const FlushedSubnormals flushed;
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

// What a shader writes, of `words` 32-bit words, for what it reads.
template <typename T>
base::Result<std::vector<T>> run_cases(const std::shared_ptr<VulkanContext>& context,
                                       const Shader& shader, std::span<const std::byte> cases,
                                       std::size_t count, std::size_t words) {
    static_assert(sizeof(T) == 4);
    TRY(auto commands, VulkanCommands::create(context));
    const auto pool = std::make_shared<VulkanPool>(context, 0);
    std::vector<T> results(words);
    TRY(const VulkanMemoryPart y, pool->take(4 * std::ssize(results)));
    {
        VulkanCommands::Operator record(*commands);
        struct {
            VkDeviceAddress x, y;
            std::uint32_t count;
        } const push{record.put(cases), y.slice().address(), static_cast<std::uint32_t>(count)};
        record.dispatch(shader, push, {});
    }
    TRY_VOID(commands->download(y.slice(), std::as_writable_bytes(std::span(results)).data()));
    return results;
}

base::Result<Wrong> try_arithmetic(const std::shared_ptr<VulkanContext>& context,
                                   std::span<const Case> cases) {
    TRY(const std::vector<float> results,
        run_cases<float>(context, shaders::prove, std::as_bytes(cases), cases.size(),
                         kResults * cases.size()));
    return compare(cases, results);
}

// ---- bits

constexpr std::size_t kBits = 5;  // words of results
constexpr const char* kBitNames[kBits] = {"float of a half", "half or bfloat of a float",
                                          "bytes of a word", "float of an integer",
                                          "first bit of a word"};

std::vector<std::uint32_t> make_words() {
    std::vector<std::uint32_t> words{
        0,           0x80000000U, 0xffffffffU, 0x80808080U, 0x7f7f7f7fU, 0x00010000, 0x477fefff,
        0x477ff000,  0x33000000,  0x33000001,  0x387fffff,  0x38801000,  0x38803000, 0x7f800000U,
        0xff800000U, 0x3f808000,  0x3f818000,  0x00ff00ff,  0x01000000,  0xfeffffffU};
    base::Random random(43);
    while (words.size() < 4096) words.push_back(static_cast<std::uint32_t>(random.next()));
    // A device may lose subnormal floats.
    for (std::uint32_t& word : words) {
        if ((word & 0x7f800000U) == 0 && (word & 0x7fffffU) != 0) word |= 0x800000U;
    }
    return words;
}

bool is_nan_word(std::uint32_t bits) {
    return (bits & 0x7fffffffU) > 0x7f800000U;
}

// Results of a case; where `got` may be any NaN it is taken as right.
std::array<std::uint32_t, kBits> expected_bits(std::uint32_t word,
                                               std::span<const std::uint32_t> got) {
    const auto byte = [word](int i) {
        return static_cast<int>(static_cast<std::int8_t>(word >> (8 * i)));
    };
    const auto whole = static_cast<std::int32_t>(word);
    const float wide = model::quant::half_to_float(static_cast<std::uint16_t>(word));
    const auto value = std::bit_cast<float>(word);
    const std::uint32_t half = model::quant::float_to_half(value);
    const std::uint32_t bfloat = model::quant::float_to_bfloat(value);
    std::array<std::uint32_t, kBits> right{
        std::bit_cast<std::uint32_t>(wide), half | bfloat << 16,
        static_cast<std::uint32_t>(byte(0) + 3 * byte(1) + 5 * byte(2) + 7 * byte(3)),
        std::bit_cast<std::uint32_t>(static_cast<float>(whole >> 8)),
        static_cast<std::uint32_t>(31 - std::countl_zero(word))};
    if (std::isnan(wide) && is_nan_word(got[0])) right[0] = got[0];
    if (is_nan_word(word) && (got[1] & 0x7fffU) > 0x7c00U && (got[1] >> 16 & 0x7fffU) > 0x7f80U)
        right[1] = got[1];
    return right;
}

// "": all is right.
std::string wrong_bits(std::span<const std::uint32_t> words,
                       std::span<const std::uint32_t> results) {
    const std::size_t n = words.size();
    const std::span<const std::byte> shorts = std::as_bytes(results.subspan(kBits * n, n / 2));
    const std::span<const std::byte> chars = std::as_bytes(results.subspan(kBits * n + n / 2));
    for (std::size_t i = 0; i < n; ++i) {
        const auto got = results.subspan(kBits * i, kBits);
        const auto right = expected_bits(words[i], got);
        for (std::size_t k = 0; k < kBits; ++k) {
            if (got[k] == right[k]) continue;
            return fmt::format("{} {:#x} is {:#x}, not {:#x}", kBitNames[k], words[i], got[k],
                               right[k]);
        }
        std::uint16_t stored = 0;
        std::memcpy(&stored, shorts.data() + 2 * i, 2);
        const float quotient = static_cast<float>(static_cast<std::int32_t>(words[i]) >> 17) / 256;
        const auto rounded = static_cast<std::int8_t>(std::nearbyint(quotient));
        if (stored != (words[i] & 0xffffU))
            return fmt::format("16 bits {:#x} are stored as {:#x}", words[i] & 0xffffU, stored);
        if (static_cast<std::int8_t>(chars[i]) != rounded) {
            return fmt::format("{} is rounded and stored as {}, not {}", quotient,
                               static_cast<int>(chars[i]), rounded);
        }
    }
    return "";
}

base::Result<std::string> try_bits(const std::shared_ptr<VulkanContext>& context) {
    const std::vector<std::uint32_t> words = make_words();
    const std::size_t n = words.size();
    TRY(const std::vector<std::uint32_t> results,
        run_cases<std::uint32_t>(context, shaders::prove_bits, std::as_bytes(std::span(words)), n,
                                 kBits * n + n / 2 + n / 4));
    return wrong_bits(words, results);
}

// ---- the integer dot product

DotCase dot_case(std::int32_t sum, const std::array<std::uint32_t, 4>& w,
                 const std::array<std::uint32_t, 4>& x) {
    DotCase made{sum, w, x, sum};
    for (std::size_t k = 0; k < 4; ++k)
        made.right += static_cast<std::int32_t>(dot_of_words(w[k], x[k]));
    return made;
}

base::Result<FeatureProof> try_dots(const std::shared_ptr<VulkanContext>& context,
                                    std::span<const DotCase> dots) {
    static_assert(sizeof(DotCase) == 40);  // as prove_dot.comp has it
    if (!context->info().integer_dot) return FeatureProof::none;
    TRY(const std::vector<std::uint32_t> results,
        run_cases<std::uint32_t>(context, shaders::prove_dot, std::as_bytes(dots), dots.size(),
                                 dots.size()));
    for (std::size_t i = 0; i < dots.size(); ++i) {
        if (results[i] != static_cast<std::uint32_t>(dots[i].right)) return FeatureProof::wrong;
    }
    return FeatureProof::proven;
}

// ---- matrix cores

// As prove_matrix.comp has a case: all but what is right.
constexpr std::size_t kMatrixWords = 288;
static_assert(offsetof(MatrixCase, right) == 4 * kMatrixWords);

void set_right(MatrixCase& of) {
    const FlushedSubnormals flushed;
    for (std::size_t r = 0; r < 16; ++r) {
        for (std::size_t o = 0; o < 16; ++o) {
            std::uint32_t sum = 0;
            for (std::size_t k = 0; k < 8; ++k)
                sum += dot_of_words(of.outputs[o][k], of.rows[r][k]);
            const float scale = of.output_scales[o] * of.row_scales[r];
            of.right[r][o] =
                std::fma(static_cast<float>(static_cast<std::int32_t>(sum)), scale, 0.0F);
        }
    }
}

base::Result<FeatureProof> try_matrices(const std::shared_ptr<VulkanContext>& context,
                                        std::span<const MatrixCase> matrices) {
    if (!context->info().matrix_cores || context->exact_fma()) return FeatureProof::none;
    std::vector<std::uint32_t> words;
    for (const MatrixCase& of : matrices) {
        std::array<std::uint32_t, kMatrixWords> given;
        std::memcpy(given.data(), &of, sizeof given);
        words.insert(words.end(), given.begin(), given.end());
    }
    constexpr std::size_t kResultsOfCase = 256;
    TRY(const std::vector<float> results,
        run_cases<float>(context, shaders::prove_matrix, std::as_bytes(std::span(words)),
                         matrices.size(), kResultsOfCase * matrices.size()));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
        for (std::size_t k = 0; k < kResultsOfCase; ++k) {
            if (!same(results[kResultsOfCase * i + k], matrices[i].right[k / 16][k % 16]))
                return FeatureProof::wrong;
        }
    }
    return FeatureProof::proven;
}

// ---- the device's own floats of halves

// Of all halves, each as the lower one of a word and as the upper one.
base::Result<bool> try_halves(const std::shared_ptr<VulkanContext>& context) {
    std::vector<std::uint32_t> words(0x10000);
    for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = i | (~i << 16);
    TRY(const std::vector<float> results,
        run_cases<float>(context, shaders::prove_halves, std::as_bytes(std::span(words)),
                         words.size(), 2 * words.size()));
    const auto is_right = [&](std::uint32_t word, float got) {
        return same(got, model::quant::half_to_float(static_cast<std::uint16_t>(word)));
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (!is_right(words[i], results[2 * i])) return false;
        if (!is_right(words[i] >> 16, results[2 * i + 1])) return false;
    }
    return true;
}

}  // namespace

std::uint32_t dot_of_words(std::uint32_t a, std::uint32_t b) {
    std::int32_t sum = 0;
    for (int byte = 0; byte < 32; byte += 8)
        sum += static_cast<std::int8_t>(a >> byte) * static_cast<std::int8_t>(b >> byte);
    return static_cast<std::uint32_t>(sum);
}

std::vector<MatrixCase> make_matrix_cases() {
    constexpr std::uint32_t kLeast = 0x80808080U;
    constexpr std::uint32_t kMost = 0x7f7f7f7fU;
    base::Random random(45);
    std::vector<MatrixCase> cases(64);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        MatrixCase& made = cases[i];
        const auto any = [&](std::uint32_t extreme) {
            return i == 0 || random.chance(0.1) ? extreme
                                                : static_cast<std::uint32_t>(random.next());
        };
        for (std::size_t r = 0; r < 16; ++r) {
            for (std::size_t k = 0; k < 8; ++k) {
                made.outputs[r][k] = any(r % 2 == 0 ? kLeast : kMost);
                made.rows[r][k] = any(r % 3 == 0 ? kLeast : kMost);
            }
            made.output_scales[r] = static_cast<float>(random.uniform() * 2 - 1);
            made.row_scales[r] = static_cast<float>(random.uniform() * 2 - 1);
        }
        set_right(made);
    }
    return cases;
}

std::vector<DotCase> make_dot_cases() {
    constexpr std::uint32_t kLeast = 0x80808080U;
    constexpr std::uint32_t kMost = 0x7f7f7f7fU;
    std::vector<DotCase> cases;
    for (const std::uint32_t w : {kLeast, kMost, 0xffffffffU, 0x01010101U}) {
        for (const std::uint32_t x : {kLeast, kMost, 0xffffffffU, 0x01010101U}) {
            for (const std::int32_t sum : {0, 1 << 24, -(1 << 24), 2'000'000'000, -2'000'000'000})
                cases.push_back(dot_case(sum, {w, w, w, w}, {x, x, x, x}));
        }
    }
    // A byte meets only the one of its own place.
    for (int i = 0; i < 32; i += 8) {
        for (int k = 0; k < 32; k += 8) {
            cases.push_back(
                dot_case(7, {0x85U << i, 0, 0x35U << i, 0}, {0x93U << k, 1, 0x4bU << k, 1}));
        }
    }
    base::Random random(44);
    const auto word = [&] { return static_cast<std::uint32_t>(random.next()); };
    while (cases.size() < 1000) {
        const auto sum = static_cast<std::int32_t>(word()) / 4;
        cases.push_back(
            dot_case(sum, {word(), word(), word(), word()}, {word(), word(), word(), word()}));
    }
    return cases;
}

base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context,
                                std::span<const DotCase> dots,
                                std::span<const MatrixCase> matrices) {
    const std::vector<Case> cases = make_cases();
    VulkanProof proof;
    context->use_exact_fma(false);
    TRY(Wrong wrong, try_arithmetic(context, cases));
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
        TRY(wrong, try_arithmetic(context, cases));
    }
    if (wrong.first.empty()) {
        TRY(wrong.first, try_bits(context));
    }
    if (!wrong.first.empty()) return base::invalid(name() + " computes wrongly: " + wrong.first);
    proof.flushes_subnormals = wrong.with_subnormals == 0;
    TRY(proof.integer_dot, try_dots(context, dots));
    context->use_integer_dot(proof.integer_dot == FeatureProof::proven);
    TRY(proof.matrix_cores, try_matrices(context, matrices));
    context->use_matrix_cores(proof.matrix_cores == FeatureProof::proven);
    TRY(proof.unpacks_halves, try_halves(context));
    context->use_unpacked_halves(proof.unpacks_halves);
    return proof;
}

base::Result<VulkanProof> prove(const std::shared_ptr<VulkanContext>& context) {
    std::vector<MatrixCase> matrices;
    if (context->info().matrix_cores) matrices = make_matrix_cases();
    return prove(context, make_dot_cases(), matrices);
}

}  // namespace helix::engine
