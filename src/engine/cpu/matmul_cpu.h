#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/packed_matrix.h"

namespace helix::engine::ops {

// Ranges of numbers, each given out in steps from its beginning.
class MatmulRanges {
  public:
    // To be split next.
    void reset(int ranges, std::int64_t step);
    // Makes ranges [first, first + ranges) out of [0, total), in order.
    void split(int first, int ranges, std::int64_t total);
    // The next [begin, end) of range i; empty when nothing is left of it. Any thread may call.
    std::pair<std::int64_t, std::int64_t> take(int i);

  private:
    struct alignas(64) Range {
        std::atomic<std::int64_t> next{0};
        std::int64_t end = 0;
    };
    std::vector<Range> ranges_;
    std::int64_t step_ = 1;
};

struct MatmulJob;

// Rows on their way into matrices, as floats and, once quantise() was called, as int8 too.
class MatmulRows {
  public:
    // x: [rows, cols], not copied. Must stay until the last use.
    void set(const float* x, std::int64_t rows, std::int64_t cols);
    // Does nothing the second time.
    void quantise(const Kernels& kernels, ThreadPool& pool);
    const MatmulInput& input() const { return input_; }
    MatmulInput input(std::int64_t first_row, std::int64_t n_rows) const;

  private:
    friend void matmul(const Kernels& kernels, ThreadPool& pool, MatmulRows& rows,
                       std::span<const MatmulJob> jobs);

    MatmulInput input_;
    std::int64_t cols_ = 0;
    std::vector<QuantisedBlock> blocks_;
    MatmulRanges ranges_;
};

struct MatmulJob {
    const PackedMatrix* matrix = nullptr;
    MatmulOutput output;
    // The rows that go through this matrix; the output begins with the first of them.
    std::int64_t first_row = 0;
    std::int64_t n_rows = -1;  // -1: all from first_row on
};

// output = the job's rows x matrix, transposed, for each job; the work is split over the pool by
// output columns, of which each of its ranks has its own. Each result depends on its row and the
// matrix only: same bits for any number of rows, threads and ranks.
void matmul(const Kernels& kernels, ThreadPool& pool, MatmulRows& rows,
            std::span<const MatmulJob> jobs);

}  // namespace helix::engine::ops
