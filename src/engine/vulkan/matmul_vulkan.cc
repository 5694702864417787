#include "engine/ops/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/ops/experts.h"
#include "engine/ops/sums.h"
#include "engine/vulkan/device_panels.h"
#include "engine/vulkan/matmul_shaders.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kUploadBytes = 16 << 20;  // that are packed at a time
constexpr std::int64_t kBlockBytes = 48;         // of 32 quantised activations
constexpr std::int64_t kMaxTileRows = 8;         // kMaxRows of weights.glsl
constexpr std::int64_t kPanelOutputs = 16;       // of matmul_rows.glsl
// Of matmul_tiled.glsl: lanes beside each other, and the most panels or rows of a lane.
constexpr std::int64_t kTileLanes = 16;
constexpr std::int64_t kMostEach = 4;
// Workgroups that keep a device busy: with fewer, tiles have fewer outputs.
constexpr std::int64_t kEnoughTiles = 128;
// Of matmul_matrix.glsl: of a tile.
constexpr std::int64_t kMostMatrixRows = 128;
constexpr std::int64_t kMostMatrixPanels = 8;

// As matmul_quantised.glsl and matmul_float.glsl have them.
static_assert(ops::kSegmentColumns == 256 && ops::kFloatSegmentColumns == 64);

// As Params of matmul_params.glsl.
struct MatmulPush {
    VkDeviceAddress weights, input, y, first_visit;
    std::uint32_t rows, cols, outputs, panel_words, experts, accumulate;
    VkDeviceAddress rest;  // a grid or factors, where the type has them
};

// What a workgroup computes at once.
struct MatmulTile {
    std::int64_t rows = 1;    // that share a reading of the weights
    std::int64_t panels = 1;  // of 16 outputs, that share a reading of the rows
    bool tiled = false;       // in shared memory
};

std::int64_t tiles_of(std::int64_t rows, std::int64_t experts, std::int64_t tile_rows) {
    if (experts == 0) return (rows + tile_rows - 1) / tile_rows;
    // Every expert may have a tile that is not full.
    return std::min(rows, rows / tile_rows + experts);
}

// Of each matrix.
std::int64_t rows_of_each(std::int64_t rows, std::int64_t experts) {
    return experts == 0 ? rows : rows / experts;
}

// As few of 16, 32... as so many rows take, and no more than `most`.
std::int64_t tile_rows_of(std::int64_t rows, std::int64_t most) {
    std::int64_t tile_rows = 16;
    while (tile_rows < rows && tile_rows < most) tile_rows *= 2;
    return tile_rows;
}

// As many panels of a tile, up to `most`, as leave enough workgroups.
std::int64_t tile_panels_of(std::int64_t panels, std::int64_t tiles, std::int64_t most) {
    std::int64_t tile_panels = most;
    while (tile_panels > 1 && tiles * ((panels + tile_panels - 1) / tile_panels) < kEnoughTiles)
        tile_panels /= 2;
    return tile_panels;
}

// What a workgroup on matrix cores computes at once: as constants of matmul_matrix.glsl.
struct MatrixTile {
    std::int64_t rows, panels, stage_blocks, panels_each, rows_each;
};

// Eight subgroups have 16 x 16 each or more of those, where there are as many: a square of them, or
// twice as many in rows as in panels.
MatrixTile matrix_tile(std::int64_t rows, std::int64_t experts, std::int64_t panels, bool halves) {
    MatrixTile tile{};
    tile.rows = tile_rows_of(rows_of_each(rows, experts), kMostMatrixRows);
    tile.panels = tile_panels_of(panels, tiles_of(rows, experts, tile.rows), kMostMatrixPanels);
    const std::int64_t of_subgroup = std::max<std::int64_t>(1, tile.rows / 16 * tile.panels / 8);
    tile.rows_each = of_subgroup > 4 ? 4 : std::min<std::int64_t>(of_subgroup, 2);
    tile.panels_each = of_subgroup / tile.rows_each;
    // With more, shared memory would not do.
    const bool large = tile.rows * tile.panels >= kMostMatrixRows * kMostMatrixPanels;
    tile.stage_blocks = halves || large ? 2 : 4;
    return tile;
}

// Up to kMaxTileRows the weights are read once by either kernel, and the one without shared memory
// has sixteen times as many lanes. Beyond, a tile in shared memory reads them fewer times. It is as
// wide as leaves enough workgroups.
MatmulTile matmul_tile(std::int64_t rows, std::int64_t experts, std::int64_t panels) {
    const std::int64_t each = rows_of_each(rows, experts);
    MatmulTile tile;
    if (each <= kMaxTileRows) {
        while (tile.rows < each) tile.rows *= 2;
        return tile;
    }
    tile.tiled = true;
    tile.rows = tile_rows_of(each, kTileLanes * kMostEach);
    tile.panels = tile_panels_of(panels, tiles_of(rows, experts, tile.rows), kMostEach);
    return tile;
}

// What the rows of x are multiplied from: where they are floats, and where int8 if anybody needs
// that.
struct MatmulInputs {
    VkDeviceAddress floats = 0;
    VkDeviceAddress quantised = 0;
    std::int64_t rows = 0;
};

void record_on_cores(VulkanCommands::Operator& record, const Shader& shader, const MatmulPush& push,
                     model::TensorType type, std::int64_t panels) {
    const bool halves = type == model::TensorType::q6_k || type == model::TensorType::q3_k;
    const MatrixTile tile = matrix_tile(push.rows, push.experts, panels, halves);
    const std::uint32_t constants[] = {word(tile.rows), word(tile.panels), word(tile.stage_blocks),
                                       word(tile.panels_each), word(tile.rows_each)};
    record.dispatch(
        shader, push,
        {tiles_of(push.rows, push.experts, tile.rows), (panels + tile.panels - 1) / tile.panels, 1},
        constants);
}

void record_projection(VulkanCommands::Operator& record, const ops::Projection& to,
                       const MatmulInputs& x, const VulkanRouting* routing,
                       const VulkanContext& context) {
    const VulkanMatrix& matrix = vulkan(to.matrix);
    const MatrixShape& shape = matrix.shape();
    const bool quantised = ops::takes_quantised_input(shape.type);
    const auto panels = DevicePanels::create(shape);
    CHECK(panels.ok());
    const std::int64_t experts = routing == nullptr ? 0 : shape.count;
    const std::int64_t n_panels = (shape.rows + kPanelOutputs - 1) / kPanelOutputs;
    const MatmulPush push{matrix.address(),
                          quantised ? x.quantised : x.floats,
                          vulkan(to.y).address(),
                          routing == nullptr ? 0 : routing->first_visit(),
                          word(x.rows),
                          word(shape.cols),
                          word(shape.rows),
                          word(panels->panel_bytes() / 4),
                          word(experts),
                          to.accumulate ? 1U : 0U,
                          matrix.address() + static_cast<VkDeviceAddress>(panels->rest_offset())};
    const Shader* cores = context.matrix_cores() ? matrix_matmul_shader(shape.type) : nullptr;
    if (cores != nullptr && rows_of_each(x.rows, experts) > kMaxTileRows)
        return record_on_cores(record, *cores, push, shape.type, n_panels);
    const MatmulTile tile = matmul_tile(x.rows, experts, n_panels);
    const std::int64_t tiles = tiles_of(x.rows, experts, tile.rows);
    const bool integer_dot = context.integer_dot();
    if (!tile.tiled) {
        const std::uint32_t constants[] = {word(tile.rows)};
        record.dispatch(matmul_shader(shape.type, integer_dot), push, {n_panels, tiles, 1},
                        constants);
        return;
    }
    // As many columns at a time as 16 KiB have room for: that much every device has.
    const std::int64_t stage_blocks = 128 / std::max(tile.rows, kPanelOutputs * tile.panels);
    const std::uint32_t constants[] = {word(tile.rows), word(tile.panels), word(stage_blocks)};
    record.dispatch(tiled_matmul_shader(shape.type, integer_dot), push,
                    {tiles, (n_panels + tile.panels - 1) / tile.panels, 1}, constants);
}

}  // namespace

std::int64_t VulkanDevice::matrix_bytes(const MatrixShape& shape) const {
    const auto panels = DevicePanels::create(shape);
    CHECK(panels.ok());
    return panels->bytes();
}

base::Result<std::unique_ptr<Matrix>> VulkanDevice::make_matrix(const MatrixShape& shape,
                                                                std::span<const std::byte> data) {
    TRY(const DevicePanels panels, DevicePanels::create(shape));
    if (std::ssize(data) != panels.stored_bytes()) {
        return base::invalid(fmt::format("a matrix of {} x {} x {}: {} bytes expected, {} found",
                                         shape.count, shape.rows, shape.cols, panels.stored_bytes(),
                                         data.size()));
    }
    TRY(auto part, matrices_->take(panels.bytes()));
    if (ops::takes_quantised_input(shape.type)) has_quantised_matrices_ = true;
    const std::int64_t step = std::max<std::int64_t>(1, kUploadBytes / panels.panel_bytes());
    std::vector<std::byte> packed;
    for (std::int64_t first = 0; first < panels.panels(); first += step) {
        const std::int64_t count = std::min(step, panels.panels() - first);
        packed.resize(base::size_of(count * panels.panel_bytes()));
        panels.pack(data, first, count, threads_, packed.data());
        VulkanCommands::Operator record(*commands_);
        record.upload(packed, part.slice().part(first * panels.panel_bytes(), std::ssize(packed)),
                      &threads_);
    }
    if (const auto rest = rest_of_matrices(shape); !rest.empty()) {
        VulkanCommands::Operator record(*commands_);
        record.upload(rest, part.slice().part(panels.rest_offset(), std::ssize(rest)), &threads_);
    }
    return std::unique_ptr<Matrix>(std::make_unique<VulkanMatrix>(shape, std::move(part)));
}

base::Result<VkDeviceAddress> VulkanDevice::quantised_room(std::int64_t blocks) {
    if (matmul_room_.slice().bytes < blocks * kBlockBytes) {
        TRY(matmul_room_, buffers_->take(blocks * kBlockBytes));
    }
    return matmul_room_.slice().address();
}

VkDeviceAddress VulkanDevice::quantised_room_of_next(std::int64_t floats, std::int64_t width) {
    if (!has_quantised_matrices_ || width % 32 != 0) return 0;
    const auto room = quantised_room(floats / 32);
    return room.ok() ? *room : 0;
}

void VulkanDevice::note_quantised(const Buffer& x, std::int64_t floats) {
    quantised_ = {vulkan(x).address(), floats, commands_->operators()};
}

bool VulkanDevice::is_quantised(const Buffer& x, std::int64_t floats) const {
    return quantised_.x == vulkan(x).address() && quantised_.floats == floats &&
           quantised_.operators == commands_->operators();
}

// Every projection reads the same activations, which are quantised once.
void VulkanDevice::multiply(const Buffer& x, std::int64_t rows, std::span<const ops::Projection> to,
                            const VulkanRouting* routing) {
    if (rows == 0) return;
    const std::int64_t cols = to[0].matrix.shape().cols;
    MatmulInputs inputs{vulkan(x).address(), 0, rows};
    const bool is_there = is_quantised(x, rows * cols);
    VulkanCommands::Operator record(*commands_);
    const bool quantise = std::any_of(to.begin(), to.end(), [](const ops::Projection& one) {
        return ops::takes_quantised_input(one.matrix.shape().type);
    });
    if (quantise) {
        CHECK(cols % 32 == 0);
        const std::int64_t blocks = rows * cols / 32;
        const auto room = quantised_room(blocks);
        if (!room.ok()) return record.fail(room.error());
        inputs.quantised = *room;
        if (!is_there) {
            struct {
                VkDeviceAddress x, blocks;
                std::uint32_t count;
            } const push{inputs.floats, inputs.quantised, word(rows * cols / 4)};
            record.dispatch(shaders::quantise_rows, push, groups_for(blocks, 8));
            record.barrier();
        }
    }
    for (const ops::Projection& one : to)
        record_projection(record, one, inputs, routing, *context_);
}

void VulkanDevice::matmul(const ops::Matmul& op) {
    multiply(op.x, op.rows, op.to, nullptr);
}

void VulkanDevice::expert_matmul(const ops::ExpertMatmul& op) {
    const VulkanRouting& routing = vulkan(op.routing);
    multiply(op.x, routing.visits(), op.to, &routing);
}

}  // namespace helix::engine
