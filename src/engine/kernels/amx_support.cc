#include "engine/kernels/amx_support.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels_includes.h"
#include "engine/kernels/packed_matrix.h"
#include "model/tensor_type.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace helix::engine::ops {
namespace {

constexpr model::TensorType kTypes[] = {
    model::TensorType::q8_0,   model::TensorType::q4_0,  model::TensorType::q4_1,
    model::TensorType::q5_0,   model::TensorType::q5_1,  model::TensorType::q3_k,
    model::TensorType::q4_k,   model::TensorType::q5_k,  model::TensorType::q6_k,
    model::TensorType::iq4_nl, model::TensorType::mxfp4, model::TensorType::q2_k,
    model::TensorType::iq4_xs, model::TensorType::iq3_s, model::TensorType::iq2_xs,
    model::TensorType::int4};

// Three panels, the last one partly filled; more columns than are unpacked at a time.
constexpr std::int64_t kOutputs = 37;
constexpr std::int64_t kCols = 1280;

using base::size_of;

std::vector<float> random_values(base::Random& random, std::int64_t n) {
    std::vector<float> values(size_of(n));
    for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
    return values;
}

PackedMatrix random_matrix(base::Random& random, model::TensorType type, ThreadPool& pool) {
    const std::vector<float> values = random_values(random, kOutputs * kCols);
    const model::TensorTypeInfo& info = *model::tensor_type_info(type);
    std::vector<std::byte> bytes(size_of(kOutputs * kCols / info.block_size * info.block_bytes));
    model::quantize_row(type, values, bytes.data());
    auto matrix = PackedMatrix::pack(type, kOutputs, kCols, bytes, pool);
    CHECK(matrix.ok());
    return std::move(matrix).value();
}

bool same_product(const Kernels& a, const Kernels& b, const PackedMatrix& matrix,
                  const MatmulInput& input) {
    const std::size_t n = size_of(input.rows * kOutputs);
    std::vector<float> of_a(n, 0.5F);
    std::vector<float> of_b(n, 0.5F);
    a.matmul(matrix.type())(matrix, 0, matrix.panels(), input, {of_a.data(), kOutputs, true});
    b.matmul(matrix.type())(matrix, 0, matrix.panels(), input, {of_b.data(), kOutputs, true});
    return std::memcmp(of_a.data(), of_b.data(), n * sizeof(float)) == 0;
}

#if defined(__x86_64__) && defined(__linux__)

bool cpu_has_amx() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    constexpr unsigned kTile = 1U << 24;
    constexpr unsigned kInt8 = 1U << 25;
    return (d & kTile) != 0 && (d & kInt8) != 0;
}

// Does the system save the tiles' shapes (bit 17) and contents (bit 18) of a thread?
bool system_keeps_tiles() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kOsxsave = 1U << 27;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3U) == 3U;
}

// Linux gives a process tiles only when it asks (arch/x86/include/uapi/asm/prctl.h); all its
// threads have them then.
bool ask_for_tiles() {
    constexpr int kGetPermission = 0x1022;
    constexpr int kRequestPermission = 0x1023;
    constexpr int kTileData = 18;
    if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
    std::uint64_t given = 0;
    return syscall(SYS_arch_prctl, kGetPermission, &given) == 0 && (given >> kTileData & 1U) != 0;
}

bool find_out() {
    if (!supported(Isa::avx512) || !cpu_has_amx()) return false;
    if (!system_keeps_tiles() || !ask_for_tiles()) {
        LOG_WARN(
            "this CPU has AMX, but the system does not let a program use it (Linux does from "
            "5.16 on): going on without");
        return false;
    }
    if (!same_products(amx_kernels(), portable_kernels())) {
        LOG_WARN(
            "AMX gives other products than plain arithmetic on this CPU: going on without; "
            "please report the CPU's model");
        return false;
    }
    return true;
}

#else

bool find_out() {
    return false;
}

#endif

}  // namespace

bool same_products(const Kernels& a, const Kernels& b) {
    base::Random random(29);
    ThreadPool pool(1);
    // Whole tiles; some rows beyond them; more rows beyond them.
    constexpr std::int64_t kRows[] = {32, 18, 25};
    const std::vector<float> x = random_values(random, kRows[0] * kCols);
    std::vector<QuantisedBlock> blocks(x.size() / 32);
    b.quantise_row(x.data(), kRows[0] * kCols, blocks.data());
    for (const model::TensorType type : kTypes) {
        const PackedMatrix matrix = random_matrix(random, type, pool);
        for (const std::int64_t rows : kRows) {
            if (!same_product(a, b, matrix, {x.data(), blocks.data(), rows})) return false;
        }
    }
    return true;
}

bool amx_works() {
    static const bool works = find_out();
    return works;
}

}  // namespace helix::engine::ops
