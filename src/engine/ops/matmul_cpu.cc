#include <algorithm>

#include "base/check.h"
#include "engine/ops/matmul.h"

namespace helix::engine::ops {
namespace {

// Below this many bytes of weights times rows, waking the other threads costs more than it gives.
constexpr std::int64_t kSharedWork = 128 << 10;
constexpr std::int64_t kPiecesPerThread = 8;

std::size_t size_of(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

}  // namespace

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
        for (std::int64_t row = 0; row < input_.rows; ++row) one(row, 0);
    } else {
        pool.run(input_.rows, one);
    }
    input_.quantised = blocks_.data();
}

MatmulInput MatmulRows::input(std::int64_t first_row, std::int64_t n_rows) const {
    MatmulInput part = input_;
    part.rows = n_rows < 0 ? input_.rows - first_row : n_rows;
    CHECK(first_row >= 0 && first_row + part.rows <= input_.rows);
    const std::int64_t at = first_row * cols_;
    part.floats += at;
    if (part.quantised != nullptr) part.quantised += at / 32;
    return part;
}

void matmul(const Kernels& kernels, ThreadPool& pool, MatmulRows& rows,
            std::span<const MatmulJob> jobs) {
    struct Piece {
        const MatmulJob* job;
        std::int64_t begin, end;
    };
    std::int64_t panels = 0;
    std::int64_t work = 0;  // bytes of weights times rows
    for (const MatmulJob& job : jobs) {
        if (takes_quantised_input(job.matrix->type())) rows.quantise(kernels, pool);
        panels += job.matrix->panels();
        work += job.matrix->bytes() * rows.input(job.first_row, job.n_rows).rows;
    }
    const bool shared = work >= kSharedWork && pool.size() > 1;
    // Multiples of four panels: what the float kernels take at a time.
    const std::int64_t step =
        shared ? std::max<std::int64_t>(1, panels / (pool.size() * kPiecesPerThread) / 4) * 4
               : panels;
    std::vector<Piece> pieces;
    for (const MatmulJob& job : jobs) {
        for (std::int64_t begin = 0; begin < job.matrix->panels(); begin += step)
            pieces.push_back({&job, begin, std::min(begin + step, job.matrix->panels())});
    }
    const auto one = [&](std::int64_t i, int) {
        const Piece& piece = pieces[size_of(i)];
        kernels.matmul(piece.job->matrix->type())(
            *piece.job->matrix, piece.begin, piece.end,
            rows.input(piece.job->first_row, piece.job->n_rows), piece.job->output);
    };
    if (shared) {
        pool.run(static_cast<std::int64_t>(pieces.size()), one);
    } else {
        for (std::size_t i = 0; i < pieces.size(); ++i) one(static_cast<std::int64_t>(i), 0);
    }
}

}  // namespace helix::engine::ops
