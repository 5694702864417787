#include "engine/vulkan/device_panels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/kernels/formats.h"

namespace helix::engine {
namespace {

using model::TensorType;

constexpr std::int64_t kOutputs = 16;  // of a panel
constexpr std::int64_t kLaneBytes = 16;

// Where a unit of the CPU's panels has planes [count][16 outputs][4 bytes], which become [16
// outputs][count][4 bytes] here. Offsets in bytes.
struct Planes {
    int offset;
    int count;
};
// A unit is a head, and then parts alike.
struct UnitPlanes {
    int head_bytes;
    int part_bytes;
    int parts;
    std::array<Planes, 2> planes;  // from the part's begin
};

UnitPlanes planes_of(TensorType type) {
    switch (type) {
        case TensorType::q8_0:
            return {32, 512, 1, {{{0, 4}, {256, 4}}}};
        case TensorType::q4_0:
        case TensorType::iq4_nl:
        case TensorType::mxfp4:
        case TensorType::q5_0:
            return {32, 256, 1, {{{0, 4}, {0, 0}}}};
        case TensorType::q4_1:
        case TensorType::q5_1:
            return {64, 256, 1, {{{0, 4}, {0, 0}}}};
        case TensorType::q4_k:
            return {64, 288, 8, {{{32, 4}, {0, 0}}}};
        case TensorType::q5_k:
            return {64, 352, 8, {{{32, 4}, {0, 0}}}};
        case TensorType::q6_k:
            return {32, 416, 8, {{{32, 4}, {288, 2}}}};
        case TensorType::q3_k:
            return {32, 224, 8, {{{32, 2}, {0, 0}}}};
        case TensorType::f32:
        case TensorType::f16:
        case TensorType::bf16:
            break;
    }
    CHECK(false);
}

void turn_planes(const UnitPlanes& unit, std::byte* bytes) {
    std::array<std::byte, 256> turned;
    for (int part = 0; part < unit.parts; ++part) {
        for (const Planes& planes : unit.planes) {
            if (planes.count == 0) continue;
            std::byte* at = bytes + unit.head_bytes + part * unit.part_bytes + planes.offset;
            for (int plane = 0; plane < planes.count; ++plane) {
                for (int output = 0; output < kOutputs; ++output) {
                    std::memcpy(turned.data() + (output * planes.count + plane) * 4,
                                at + (plane * kOutputs + output) * 4, 4);
                }
            }
            std::memcpy(at, turned.data(), base::size_of(64 * planes.count));
        }
    }
}

}  // namespace

base::Result<DevicePanels> DevicePanels::create(const MatrixShape& shape) {
    const ops::Format* format = ops::find_format(shape.type);
    if (format == nullptr) {
        return base::invalid(
            fmt::format("tensor type {} is not supported", static_cast<unsigned>(shape.type)));
    }
    if (shape.count <= 0 || shape.rows <= 0 || shape.cols <= 0 ||
        shape.cols % format->block_cols != 0) {
        return base::invalid(
            fmt::format("{} matrices of {} rows of {} columns cannot be {}: rows are blocks of {}",
                        shape.count, shape.rows, shape.cols, format->name, format->block_cols));
    }
    DevicePanels panels;
    panels.type_ = shape.type;
    panels.count_ = shape.count;
    panels.rows_ = shape.rows;
    panels.row_bytes_ = shape.cols / format->block_cols * format->block_bytes;
    panels.panels_of_matrix_ = (shape.rows + kOutputs - 1) / kOutputs;
    const std::int64_t lane_units = (panels.row_bytes_ + kLaneBytes - 1) / kLaneBytes;
    panels.panel_bytes_ = format->quantised_input
                              ? shape.cols / format->block_cols * format->unit_bytes
                              : lane_units * kLaneBytes * kOutputs;
    return panels;
}

void DevicePanels::pack_panel(std::span<const std::byte> data, std::int64_t panel,
                              std::byte* out) const {
    const ops::Format& format = *ops::find_format(type_);
    const std::int64_t first = panel % panels_of_matrix_ * kOutputs;
    const std::byte* matrix = data.data() + panel / panels_of_matrix_ * rows_ * row_bytes_;
    const std::int64_t outputs = std::min(kOutputs, rows_ - first);
    if (!format.quantised_input) {
        std::memset(out, 0, base::size_of(panel_bytes_));
        for (std::int64_t output = 0; output < outputs; ++output) {
            const std::byte* row = matrix + (first + output) * row_bytes_;
            for (std::int64_t at = 0; at < row_bytes_; at += kLaneBytes) {
                std::memcpy(out + at * kOutputs + output * kLaneBytes, row + at,
                            base::size_of(std::min(kLaneBytes, row_bytes_ - at)));
            }
        }
        return;
    }
    // Blocks of zero bytes are zeros in every format.
    const std::vector<std::byte> zeros(base::size_of(format.block_bytes));
    const UnitPlanes planes = planes_of(type_);
    for (std::int64_t at = 0; at < row_bytes_; at += format.block_bytes, out += format.unit_bytes) {
        std::array<const std::byte*, kOutputs> blocks;
        for (std::int64_t output = 0; output < kOutputs; ++output) {
            blocks[base::at(output)] =
                output < outputs ? matrix + (first + output) * row_bytes_ + at : zeros.data();
        }
        format.pack_unit(blocks.data(), out);
        turn_planes(planes, out);
    }
}

void DevicePanels::pack(std::span<const std::byte> data, std::int64_t first, std::int64_t count,
                        ThreadPool& pool, std::byte* out) const {
    CHECK(std::ssize(data) == stored_bytes() && first >= 0 && first + count <= panels());
    pool.run(count,
             [&](std::int64_t i, int) { pack_panel(data, first + i, out + i * panel_bytes_); });
}

}  // namespace helix::engine
