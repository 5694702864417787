#include "engine/kernels/packed_matrix.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/kernels/formats.h"

namespace helix::engine::ops {

namespace {

const Format& format_of(model::TensorType type) {
    const Format* format = find_format(type);
    CHECK(format != nullptr);
    return *format;
}

constexpr std::size_t kLine = 64;

}  // namespace

base::Result<std::shared_ptr<MatrixMemory>> MatrixMemory::allocate(std::int64_t bytes) {
    auto memory = std::make_shared<MatrixMemory>();
    TRY(memory->buffer_, AlignedBuffer::allocate(static_cast<std::size_t>(bytes)));
    return memory;
}

base::Result<MatrixMemory::Part> MatrixMemory::take(std::shared_ptr<MatrixMemory> memory,
                                                    std::int64_t bytes) {
    const auto wanted = static_cast<std::size_t>(bytes);
    if (memory == nullptr || memory->buffer_.size() - memory->used_ < wanted) {
        TRY(memory, allocate(bytes));
    }
    Part part;
    part.bytes_ = {memory->buffer_.data() + memory->used_, wanted};
    const std::size_t used = (memory->used_ + wanted + kLine - 1) / kLine * kLine;
    memory->used_ = std::min(used, memory->buffer_.size());
    part.memory_ = std::move(memory);
    return part;
}

std::size_t MatrixMemory::Part::offset_in_buffer() const {
    return static_cast<std::size_t>(bytes_.data() - memory_->buffer_.data());
}

MatrixMemory::Part::~Part() {
    if (memory_ != nullptr) memory_->buffer_.give_back(offset_in_buffer(), bytes_.size());
}

void MatrixMemory::Part::part_huge_pages(std::int64_t offset) {
    CHECK(offset >= 0 && offset <= size());
    memory_->buffer_.part_huge_pages(offset_in_buffer() + static_cast<std::size_t>(offset));
}

const Format* find_format(model::TensorType type) {
    switch (type) {
        case model::TensorType::f32:
            return &f32_format();
        case model::TensorType::f16:
            return &f16_format();
        case model::TensorType::bf16:
            return &bf16_format();
        case model::TensorType::q8_0:
            return &q8_0_format();
        case model::TensorType::q4_0:
            return &q4_0_format();
        case model::TensorType::q4_k:
            return &q4_k_format();
        case model::TensorType::q6_k:
            return &q6_k_format();
        case model::TensorType::q4_1:
            return &q4_1_format();
        case model::TensorType::q5_0:
            return &q5_0_format();
        case model::TensorType::q5_1:
            return &q5_1_format();
        case model::TensorType::q2_k:
            return &q2_k_format();
        case model::TensorType::q3_k:
            return &q3_k_format();
        case model::TensorType::q5_k:
            return &q5_k_format();
        case model::TensorType::iq4_nl:
            return &iq4_nl_format();
        case model::TensorType::iq4_xs:
            return &iq4_xs_format();
        case model::TensorType::mxfp4:
            return &mxfp4_format();
        case model::TensorType::iq2_xxs:
            return &iq2_xxs_format();
        case model::TensorType::iq2_xs:
            return &iq2_xs_format();
        case model::TensorType::iq2_s:
            return &iq2_s_format();
        case model::TensorType::iq3_xxs:
            return &iq3_xxs_format();
        case model::TensorType::iq3_s:
            return &iq3_s_format();
        case model::TensorType::tq1_0:
            return &tq1_0_format();
        case model::TensorType::tq2_0:
            return &tq2_0_format();
        case model::TensorType::iq1_s:
            return &iq1_s_format();
        case model::TensorType::iq1_m:
            return &iq1_m_format();
        case model::TensorType::nvfp4:
            return &nvfp4_format();
        case model::TensorType::fp8:
            return &fp8_format();
        case model::TensorType::int4:
            return &int4_format();
    }
    return nullptr;
}

bool takes_quantised_input(model::TensorType type) {
    return format_of(type).quantised_input;
}

std::int64_t PackedMatrix::packed_bytes(model::TensorType type, std::int64_t rows,
                                        std::int64_t cols) {
    const Format& format = format_of(type);
    return (rows + kPanelRows - 1) / kPanelRows * (cols / format.block_cols) * format.unit_bytes;
}

base::Result<PackedMatrix> PackedMatrix::pack(model::TensorType type, std::int64_t rows,
                                              std::int64_t cols, std::span<const std::byte> data,
                                              ThreadPool& pool,
                                              std::shared_ptr<MatrixMemory> memory) {
    const Format* format = find_format(type);
    if (format == nullptr) {
        return base::invalid(
            fmt::format("tensor type {} is not supported", static_cast<unsigned>(type)));
    }
    if (rows <= 0 || cols <= 0 || cols % format->block_cols != 0) {
        return base::invalid(
            fmt::format("a matrix of {} rows of {} columns cannot be {}: rows are blocks of {}",
                        rows, cols, format->name, format->block_cols));
    }
    const std::int64_t units = cols / format->block_cols;
    const std::int64_t row_bytes = units * format->block_bytes;
    if (static_cast<std::int64_t>(data.size()) != rows * row_bytes) {
        return base::invalid(fmt::format("{} matrix of {} x {}: {} bytes expected, {} found",
                                         format->name, rows, cols, rows * row_bytes, data.size()));
    }
    PackedMatrix matrix;
    matrix.type_ = type;
    matrix.rows_ = rows;
    matrix.cols_ = cols;
    matrix.panel_bytes_ = units * format->unit_bytes;
    TRY(matrix.memory_,
        MatrixMemory::take(std::move(memory), matrix.panels() * matrix.panel_bytes_));
    // Blocks of zero bytes are zeros in every format: where there is an offset, the scale is zero,
    // and mxfp4's first level is.
    std::vector<std::byte> zero_row(static_cast<std::size_t>(format->block_bytes), std::byte{0});
    const int ranks = pool.ranks();
    for (int rank = 1; rank < ranks && pool.several_nodes(); ++rank) {
        matrix.memory_.part_huge_pages(matrix.first_panel(rank, ranks) * matrix.panel_bytes_);
    }
    const std::int64_t most = (matrix.panels() + ranks - 1) / ranks;
    pool.run_ranks(most, [&](int rank, std::int64_t i, int) {
        const std::int64_t p = matrix.first_panel(rank, ranks) + i;
        if (p >= matrix.first_panel(rank + 1, ranks)) return;
        std::byte* out = matrix.memory_.data() + p * matrix.panel_bytes_;
        for (std::int64_t u = 0; u < units; ++u, out += format->unit_bytes) {
            std::array<const std::byte*, kPanelRows> blocks;
            for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
                const std::int64_t row = p * kPanelRows + lane;
                blocks[static_cast<std::size_t>(lane)] =
                    row < rows ? data.data() + row * row_bytes + u * format->block_bytes
                               : zero_row.data();
            }
            format->pack_unit(blocks.data(), out);
        }
    });
    return matrix;
}

}  // namespace helix::engine::ops
