#include "engine/cpu/matmul_cpu.h"

#include <algorithm>

#include "base/check.h"
#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"

namespace helix::engine::ops {
namespace {

// Below this many bytes of weights times rows, waking the other threads costs more than it gives.
constexpr std::int64_t kSharedWork = 128 << 10;
constexpr std::int64_t kPiecesPerThread = 8;

using base::size_of;

}  // namespace

void MatmulRanges::reset(int ranges, std::int64_t step) {
    if (std::ssize(ranges_) < ranges) ranges_ = std::vector<Range>(size_of(ranges));
    step_ = step;
}

void MatmulRanges::split(int first, int ranges, std::int64_t total) {
    const std::int64_t steps = (total + step_ - 1) / step_;
    for (int i = 0; i < ranges; ++i) {
        Range& range = ranges_[size_of(first + i)];
        range.next.store(steps * i / ranges * step_, std::memory_order_relaxed);
        range.end = std::min(total, steps * (i + 1) / ranges * step_);
    }
}

std::pair<std::int64_t, std::int64_t> MatmulRanges::take(int i) {
    Range& range = ranges_[size_of(i)];
    const std::int64_t begin = range.next.fetch_add(step_, std::memory_order_relaxed);
    return {begin, std::min(begin + step_, range.end)};
}

void MatmulRows::set(const float* x, std::int64_t rows, std::int64_t cols) {
    input_ = MatmulInput{};
    input_.floats = x;
    input_.rows = rows;
    cols_ = cols;
}

void MatmulRows::quantise(const Kernels& kernels, ThreadPool& pool) {
    if (input_.quantised != nullptr) return;
    CHECK(cols_ % 32 == 0);
    const std::int64_t row_blocks = cols_ / 32;
    const std::int64_t blocks = input_.rows * row_blocks;
    if (size_of(blocks) > blocks_.size()) blocks_.resize(size_of(blocks));
    const auto one = [&](std::int64_t row, int) {
        kernels.quantise_row(input_.floats + row * cols_, cols_, blocks_.data() + row * row_blocks);
    };
    if (input_.rows * cols_ < kSharedWork) {
        pool.run_alone(input_.rows, one);
    } else {
        pool.run(input_.rows, one);
    }
    input_.quantised = blocks_.data();
}

MatmulInput MatmulRows::input(std::int64_t first_row, std::int64_t n_rows) const {
    MatmulInput part = input_;
    part.rows = n_rows < 0 ? input_.rows - first_row : n_rows;
    CHECK(first_row >= 0 && first_row + part.rows <= input_.rows);
    part.floats += first_row * cols_;
    if (part.quantised != nullptr) part.quantised += first_row * (cols_ / 32);
    return part;
}

// A rank's panels of all jobs, one job after the other, are cut into one range for each of its
// threads: a thread reads its weights in one stream. Who is done takes pieces from the ranges of
// others of the rank.
void matmul(const Kernels& kernels, ThreadPool& pool, MatmulRows& rows,
            std::span<const MatmulJob> jobs) {
    std::int64_t panels = 0;
    std::int64_t work = 0;  // bytes of weights times rows
    for (const MatmulJob& job : jobs) {
        if (takes_quantised_input(job.matrix->type())) rows.quantise(kernels, pool);
        panels += job.matrix->panels();
        work += job.matrix->bytes() * rows.input(job.first_row, job.n_rows).rows;
    }
    const int threads = pool.size();
    const bool shared = work >= kSharedWork && threads > 1;
    const int ranks = shared ? pool.ranks() : 1;
    // Of the panels of a rank.
    const auto run = [&](int rank, std::int64_t begin, std::int64_t end) {
        for (const MatmulJob& job : jobs) {
            const std::int64_t first = job.matrix->first_panel(rank, ranks);
            const std::int64_t n = job.matrix->first_panel(rank + 1, ranks) - first;
            if (begin < n && end > 0) {
                kernels.matmul(job.matrix->type())(
                    *job.matrix, first + std::max<std::int64_t>(begin, 0), first + std::min(end, n),
                    rows.input(job.first_row, job.n_rows), job.output);
            }
            begin -= n;
            end -= n;
        }
    };
    if (!shared) {
        pool.run_alone(1, [&](std::int64_t, int) { run(0, 0, panels); });
        return;
    }
    // Multiples of four panels: what the float kernels take at a time.
    const std::int64_t step =
        std::max<std::int64_t>(1, panels / (threads * kPiecesPerThread) / 4) * 4;
    const int each = (threads + ranks - 1) / ranks;
    rows.ranges_.reset(ranks * each, step);
    for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t own = 0;
        for (const MatmulJob& job : jobs) {
            own += job.matrix->first_panel(rank + 1, ranks) - job.matrix->first_panel(rank, ranks);
        }
        rows.ranges_.split(rank * each, each, own);
    }
    pool.run_ranks(each, [&](int rank, std::int64_t own, int) {
        for (int i = 0; i < each; ++i) {
            const int range = rank * each + (static_cast<int>(own) + i) % each;
            for (;;) {
                const auto [begin, end] = rows.ranges_.take(range);
                if (begin >= end) break;
                run(rank, begin, end);
            }
        }
    });
}

}  // namespace helix::engine::ops

namespace helix::engine {

void CpuDevice::matmul(const ops::Matmul& op) {
    jobs_.clear();
    for (const ops::Projection& to : op.to) {
        const auto& matrix = static_cast<const CpuMatrix&>(to.matrix);
        const MatrixShape& shape = matrix.shape();
        jobs_.push_back(
            {&matrix.packed(), {data_of(to.y), shape.rows, to.accumulate, shape.factor(0)}});
    }
    const std::int64_t cols = op.to[0].matrix.shape().cols;
    matmul_rows_.set(data_of(op.x), op.rows, cols);
    for (const ops::Projection& to : op.to) {
        if (watcher_ != nullptr)
            watcher_->rows(to.matrix, 0, {data_of(op.x), base::size_of(op.rows * cols)});
    }
    ops::matmul(kernels_, pool_, matmul_rows_, jobs_);
}

}  // namespace helix::engine
