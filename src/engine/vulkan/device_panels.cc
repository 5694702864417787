#include "engine/vulkan/device_panels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/kernels/formats.h"
#include "model/quant/codes.h"

namespace helix::engine {
namespace {

using model::TensorType;

constexpr std::int64_t kOutputs = 16;  // of a panel
constexpr std::int64_t kLaneBytes = 16;

constexpr std::int64_t kBlockColumns = 32;

// What every part of a unit of the CPU's panels has, or its head: [count][16 outputs][bytes], from
// `offset` on.
struct UnitField {
    int offset = 0;
    int count = 0;
    int bytes = 0;
    bool of_head = false;
};
// A plane of a panel here: [groups of blocks][16 outputs][lane_bytes], where an output has for each
// block of the group what a field gives it. A second field begins in the middle of its bytes.
struct PanelPlane {
    int lane_bytes = 0;
    int blocks = 0;  // of a group
    std::array<UnitField, 2> fields;
    std::int64_t bytes(std::int64_t n_blocks) const {
        return blocks == 0 ? 0 : (n_blocks + blocks - 1) / blocks * kOutputs * lane_bytes;
    }
};
// A unit is a head, and then parts alike, which are blocks of 32 columns.
struct PanelLayout {
    int head_bytes;
    int part_bytes;
    int parts;
    std::array<PanelPlane, 4> planes;
};

// As dot_FORMAT.glsl reads them. So many bytes of a block begin at a part's `offset`:
constexpr PanelPlane sixteen_bytes(int offset) {
    return {16, 1, {{{offset, 4, 4}}}};
}
constexpr PanelPlane eight_bytes(int offset) {
    return {8, 1, {{{offset, 2, 4}}}};
}
constexpr PanelPlane four_bytes(int offset) {
    return {16, 4, {{{offset, 1, 4}}}};
}
constexpr PanelPlane two_bytes(int offset) {
    return {16, 8, {{{offset, 1, 2}}}};
}
// The scales of each of eight blocks, and what is theirs together.
constexpr PanelPlane kByteScales{16, 8, {{{0, 1, 1}, {16, 1, 1}}}};
constexpr PanelPlane kEightScales{8, 8, {{{0, 1, 1}}}};
constexpr PanelPlane kEightZeros{8, 8, {{{32, 1, 1}}}};
constexpr PanelPlane kTwoHalves{4, 8, {{{0, 1, 2, true}, {32, 1, 2, true}}}};
constexpr PanelPlane kOneHalf{2, 8, {{{0, 1, 2, true}}}};

// Formats of codes: the file's blocks, filled up to whole words.
PanelLayout whole_blocks(TensorType type) {
    const model::TensorTypeInfo& info = *model::tensor_type_info(type);
    const int lane_bytes = (info.block_bytes + 3) / 4 * 4;
    const int parts = info.block_size / static_cast<int>(kBlockColumns);
    return {static_cast<int>(kOutputs) * info.block_bytes,
            0,
            parts,
            {PanelPlane{lane_bytes, parts, {{{0, 1, info.block_bytes, true}}}}}};
}

PanelLayout layout_of(TensorType type) {
    switch (type) {
        case TensorType::q8_0:
            return {0, 544, 1, {sixteen_bytes(32), sixteen_bytes(288), two_bytes(0)}};
        case TensorType::q4_0:
        case TensorType::iq4_nl:
        case TensorType::mxfp4:
            return {0, 288, 1, {sixteen_bytes(32), two_bytes(0)}};
        case TensorType::q4_1:
            return {0, 320, 1, {sixteen_bytes(64), two_bytes(0), two_bytes(32)}};
        case TensorType::q5_0:
            return {0, 352, 1, {sixteen_bytes(32), four_bytes(288), two_bytes(0)}};
        case TensorType::q5_1:
            return {0, 384, 1, {sixteen_bytes(64), four_bytes(320), two_bytes(0), two_bytes(32)}};
        case TensorType::int4:
            return {0, 304, 1, {sixteen_bytes(48), two_bytes(0), kEightZeros}};
        case TensorType::q4_k:
            return {64, 288, 8, {sixteen_bytes(32), kByteScales, kTwoHalves}};
        case TensorType::q5_k:
            return {64, 352, 8, {sixteen_bytes(32), four_bytes(288), kByteScales, kTwoHalves}};
        case TensorType::q6_k:
            return {32, 416, 8, {sixteen_bytes(32), eight_bytes(288), kByteScales, kOneHalf}};
        case TensorType::q3_k:
            return {32, 224, 8, {eight_bytes(32), four_bytes(160), kByteScales, kOneHalf}};
        case TensorType::q2_k:
            return {64, 160, 8, {eight_bytes(32), kByteScales, kTwoHalves}};
        case TensorType::iq4_xs:
            return {32, 272, 8, {sixteen_bytes(16), kEightScales, kOneHalf}};
        case TensorType::tq1_0:
        case TensorType::tq2_0:
        case TensorType::iq1_s:
        case TensorType::iq1_m:
        case TensorType::nvfp4:
        case TensorType::iq3_xxs:
        case TensorType::iq3_s:
        case TensorType::iq2_xxs:
        case TensorType::iq2_xs:
        case TensorType::iq2_s:
            return whole_blocks(type);
        case TensorType::f32:
        case TensorType::f16:
        case TensorType::bf16:
        case TensorType::fp8:
            break;
    }
    CHECK(false);
}

// A field of one part, or of a head, to where an output's share of it begins in a plane. Bytes: how
// many it has, or 0.
template <int Bytes>
void copy_field(int count, int bytes, const std::byte* from, int lane_bytes, std::byte* to) {
    const int size = Bytes == 0 ? bytes : Bytes;
    for (int i = 0; i < count; ++i) {
        for (int output = 0; output < kOutputs; ++output) {
            std::memcpy(to + output * lane_bytes + i * size, from, base::size_of(size));
            from += size;
        }
    }
}

// What a unit has for a plane, which begins at `to`. first: the number of the unit's first block.
void place_plane(const PanelLayout& layout, const PanelPlane& plane, const std::byte* unit,
                 std::int64_t first, std::byte* to) {
    for (int which = 0; which < 2; ++which) {
        const UnitField& field = plane.fields[base::at(which)];
        if (field.count == 0) continue;
        const int parts = field.of_head ? 1 : layout.parts;
        for (int part = 0; part < parts; ++part) {
            const std::byte* from =
                unit + field.offset +
                (field.of_head ? 0 : layout.head_bytes + part * layout.part_bytes);
            const std::int64_t block = first + part;
            std::byte* at = to + block / plane.blocks * kOutputs * plane.lane_bytes +
                            which * plane.lane_bytes / 2 +
                            block % plane.blocks * field.count * field.bytes;
            const auto copy = field.bytes == 1   ? copy_field<1>
                              : field.bytes == 2 ? copy_field<2>
                              : field.bytes == 4 ? copy_field<4>
                                                 : copy_field<0>;
            copy(field.count, field.bytes, from, plane.lane_bytes, at);
        }
    }
}

// Of a block that is multiplied as floats, where it begins with a scale.
std::int64_t scale_bytes(TensorType type) {
    return type == TensorType::fp8 ? 4 : 0;
}

// That shaders multiply by; those that the matrices have not are one.
std::int64_t n_factors(const MatrixShape& shape) {
    return shape.type == TensorType::nvfp4 ? shape.count : 0;
}

std::int64_t rest_bytes(const MatrixShape& shape) {
    return static_cast<std::int64_t>(model::quant::find_grid(shape.type).size_bytes()) +
           4 * n_factors(shape);
}

}  // namespace

std::vector<std::byte> rest_of_matrices(const MatrixShape& shape) {
    const auto grid = std::as_bytes(model::quant::find_grid(shape.type));
    std::vector<std::byte> rest(grid.begin(), grid.end());
    for (std::int64_t i = 0; i < n_factors(shape); ++i) {
        const auto factor = std::bit_cast<std::array<std::byte, 4>>(shape.factor(i));
        rest.insert(rest.end(), factor.begin(), factor.end());
    }
    CHECK(std::ssize(rest) == rest_bytes(shape));
    return rest;
}

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
    CHECK(shape.factors.empty() || std::ssize(shape.factors) == n_factors(shape));
    DevicePanels panels;
    panels.type_ = shape.type;
    panels.count_ = shape.count;
    panels.rows_ = shape.rows;
    panels.row_bytes_ = shape.cols / format->block_cols * format->block_bytes;
    panels.panels_of_matrix_ = (shape.rows + kOutputs - 1) / kOutputs;
    if (!format->quantised_input) {
        const std::int64_t scales = shape.cols / format->block_cols * scale_bytes(shape.type);
        const std::int64_t weights = panels.row_bytes_ - scales;
        const std::int64_t lane_units = (weights + kLaneBytes - 1) / kLaneBytes;
        panels.panel_bytes_ = (lane_units * kLaneBytes + scales) * kOutputs;
        return panels;
    }
    for (const PanelPlane& plane : layout_of(shape.type).planes)
        panels.panel_bytes_ += plane.bytes(shape.cols / kBlockColumns);
    panels.rest_bytes_ = rest_bytes(shape);
    return panels;
}

// Scales lie behind the weights of all outputs: [blocks][16 outputs].
void DevicePanels::pack_float_row(const std::byte* row, std::int64_t output,
                                  std::byte* panel) const {
    const std::int64_t block_bytes = ops::find_format(type_)->block_bytes;
    const std::int64_t of_scale = scale_bytes(type_);
    if (of_scale == 0) {
        for (std::int64_t at = 0; at < row_bytes_; at += kLaneBytes) {
            std::memcpy(panel + at * kOutputs + output * kLaneBytes, row + at,
                        base::size_of(std::min(kLaneBytes, row_bytes_ - at)));
        }
        return;
    }
    const std::int64_t blocks = row_bytes_ / block_bytes;
    const std::int64_t weights = block_bytes - of_scale;  // whole lanes
    std::byte* scales = panel + blocks * weights * kOutputs;
    for (std::int64_t b = 0; b < blocks; ++b, row += block_bytes) {
        std::memcpy(scales + (b * kOutputs + output) * of_scale, row, base::size_of(of_scale));
        for (std::int64_t at = 0; at < weights; at += kLaneBytes) {
            std::memcpy(panel + (b * weights + at) * kOutputs + output * kLaneBytes,
                        row + of_scale + at, kLaneBytes);
        }
    }
}

void DevicePanels::pack_panel(std::span<const std::byte> data, std::int64_t panel,
                              std::byte* out) const {
    const ops::Format& format = *ops::find_format(type_);
    const std::int64_t first = panel % panels_of_matrix_ * kOutputs;
    const std::byte* matrix = data.data() + panel / panels_of_matrix_ * rows_ * row_bytes_;
    const std::int64_t outputs = std::min(kOutputs, rows_ - first);
    std::memset(out, 0, base::size_of(panel_bytes_));
    if (!format.quantised_input) {
        for (std::int64_t output = 0; output < outputs; ++output)
            pack_float_row(matrix + (first + output) * row_bytes_, output, out);
        return;
    }
    // Blocks of zero bytes are zeros in every format.
    const std::vector<std::byte> zeros(base::size_of(format.block_bytes));
    std::vector<std::byte> unit(base::size_of(format.unit_bytes));
    const PanelLayout layout = layout_of(type_);
    const std::int64_t n_units = row_bytes_ / format.block_bytes;
    for (std::int64_t u = 0; u < n_units; ++u) {
        std::array<const std::byte*, kOutputs> blocks;
        for (std::int64_t output = 0; output < kOutputs; ++output) {
            blocks[base::at(output)] =
                output < outputs ? matrix + (first + output) * row_bytes_ + u * format.block_bytes
                                 : zeros.data();
        }
        format.pack_unit(blocks.data(), unit.data());
        std::byte* to = out;
        for (const PanelPlane& plane : layout.planes) {
            if (plane.blocks == 0) break;
            place_plane(layout, plane, unit.data(), u * layout.parts, to);
            to += plane.bytes(n_units * layout.parts);
        }
    }
}

void DevicePanels::pack(std::span<const std::byte> data, std::int64_t first, std::int64_t count,
                        ThreadPool& pool, std::byte* out) const {
    CHECK(std::ssize(data) == stored_bytes() && first >= 0 && first + count <= panels());
    pool.run(count,
             [&](std::int64_t i, int) { pack_panel(data, first + i, out + i * panel_bytes_); });
}

}  // namespace helix::engine
