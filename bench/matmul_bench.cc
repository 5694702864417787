// usage: matmul_bench [ROUNDS [OUTPUTS COLUMNS [ROWS...]]]
//
// What a product of rows with a matrix takes one thread, for each format, vector instruction set
// that this machine has and number of rows: microseconds that the thread really ran, the median
// over the rounds. Activations are quantised within it where the format takes them so.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/random.h"
#include "engine/cpu/matmul_cpu.h"
#include "model/tensor_type.h"

namespace {

using namespace helix;  // NOLINT: a program of one file
using namespace helix::engine;
using model::TensorType;

constexpr TensorType kTypes[] = {
    TensorType::q8_0,  TensorType::q4_0, TensorType::q4_1,   TensorType::q5_0, TensorType::q5_1,
    TensorType::q3_k,  TensorType::q4_k, TensorType::q5_k,   TensorType::q6_k, TensorType::iq4_nl,
    TensorType::mxfp4, TensorType::q2_k, TensorType::iq4_xs, TensorType::f16};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<float> random_floats(std::int64_t n) {
    base::Random random(5);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = static_cast<float>(random.uniform()) * 2 - 1;
    return values;
}

// A matrix whose rows are all the same.
base::Result<ops::PackedMatrix> make_matrix(TensorType type, std::int64_t outputs,
                                            std::int64_t columns, ThreadPool& pool) {
    const auto* info = model::tensor_type_info(type);
    const auto row_bytes = static_cast<std::size_t>(columns / info->block_size * info->block_bytes);
    std::vector<std::byte> bytes(row_bytes * static_cast<std::size_t>(outputs));
    model::quantize_row(type, random_floats(columns), bytes.data());
    for (std::size_t at = row_bytes; at < bytes.size(); at += row_bytes)
        std::copy_n(bytes.begin(), row_bytes, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    return ops::PackedMatrix::pack(type, outputs, columns, bytes, pool);
}

void measure(const ops::PackedMatrix& matrix, ops::Isa isa, std::int64_t rows, int rounds,
             ThreadPool& pool) {
    const auto x = random_floats(rows * matrix.cols());
    std::vector<float> y(static_cast<std::size_t>(rows * matrix.rows()));
    ops::MatmulRows input;
    const ops::MatmulJob job{&matrix, {y.data(), matrix.rows(), false}};
    std::vector<double> us;
    for (int round = 0; round <= rounds; ++round) {
        const double start = cpu_seconds();
        input.set(x.data(), rows, matrix.cols());
        ops::matmul(ops::kernels(isa), pool, input, {&job, 1});
        if (round > 0) us.push_back((cpu_seconds() - start) * 1e6);
    }
    std::sort(us.begin(), us.end());
    std::printf("%-8s %-7s %4d rows %10.1f us  (%.1f-%.1f)\n", ops::to_string(isa),
                model::tensor_type_info(matrix.type())->name, static_cast<int>(rows),
                us[us.size() / 2], us.front(), us.back());
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::int64_t> given;
    for (int i = 1; i < argc; ++i) given.push_back(std::max(1, std::atoi(argv[i])));
    const int rounds = given.empty() ? 9 : static_cast<int>(given[0]);
    const std::int64_t outputs = given.size() > 2 ? given[1] : 4096;
    const std::int64_t columns = given.size() > 2 ? given[2] : 4096;
    std::vector<std::int64_t> rows = {1, 8, 32, 256};
    if (given.size() > 3) rows.assign(given.begin() + 3, given.end());
    ThreadPool pool(1);
    for (const TensorType type : kTypes) {
        const auto matrix = make_matrix(type, outputs, columns, pool);
        if (!matrix.ok()) return std::fprintf(stderr, "%s\n", matrix.error().message.c_str()), 1;
        for (const ops::Isa isa : {ops::Isa::avx2, ops::Isa::avx512, ops::Isa::amx}) {
            if (!ops::supported(isa)) continue;
            for (const std::int64_t n : rows) measure(*matrix, isa, n, rounds, pool);
        }
    }
    return 0;
}
