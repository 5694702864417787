#include "engine/proof/made_data.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/index.h"
#include "model/quant/half.h"
#include "model/quant/int4.h"

namespace helix::engine::proof {
namespace {

// Every second block's scale as a bfloat: files have both kinds, quantising gives halves.
void make_bfloats_of_scales(std::vector<std::byte>& blocks) {
    for (std::size_t at = 0; at < blocks.size(); at += 2 * sizeof(model::quant::BlockInt4)) {
        model::quant::BlockInt4 block;
        std::memcpy(&block, blocks.data() + at, sizeof block);
        const std::uint16_t bits = model::quant::float_to_bfloat(model::quant::scale_of(block));
        std::memcpy(block.scale, &bits, sizeof bits);
        block.zero = static_cast<std::uint8_t>(block.zero | model::quant::kBfloatScale);
        std::memcpy(blocks.data() + at, &block, sizeof block);
    }
}

}  // namespace

std::vector<float> random_floats(base::Random& random, std::size_t n, double scale) {
    std::vector<float> values(n);
    for (float& v : values) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) sum += random.uniform() - 0.5;
        if (random.chance(0.02)) sum = 0;
        if (random.chance(0.02)) sum *= 8;
        v = static_cast<float>(sum * scale);
    }
    return values;
}

StoredMatrix random_matrix(base::Random& random, model::TensorType type, std::size_t rows,
                           std::size_t cols) {
    const model::TensorTypeInfo& info = *model::tensor_type_info(type);
    StoredMatrix m;
    m.values = random_floats(random, rows * cols, 0.7);
    m.bytes.resize(rows * cols / static_cast<std::size_t>(info.block_size) *
                   static_cast<std::size_t>(info.block_bytes));
    model::quantize_row(type, m.values, m.bytes.data());
    if (type == model::TensorType::int4) make_bfloats_of_scales(m.bytes);
    model::dequantize_row(type, m.bytes, m.values.data());
    return m;
}

std::int64_t fitting_cols(model::TensorType type, std::int64_t cols) {
    const std::int64_t block = model::tensor_type_info(type)->block_size;
    return (cols + block - 1) / block * block;
}

base::Result<std::unique_ptr<Buffer>> poisoned_buffer(Device& device, std::int64_t floats) {
    return filled_buffer(
        device, std::vector<float>(base::size_of(floats), std::numeric_limits<float>::quiet_NaN()));
}

base::Status read_all(Device& device, const Buffer& buffer, std::vector<float>& to) {
    TRY(const std::span<const float> values, device.read(buffer, 0, buffer.size()));
    to.insert(to.end(), values.begin(), values.end());
    return base::Ok{};
}

std::string first_difference(std::span<const float> got, std::span<const float> right) {
    if (got.size() != right.size())
        return fmt::format("{} floats, not {}", got.size(), right.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(got[i]) && std::isnan(right[i])) continue;
        if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(right[i]))
            continue;
        return fmt::format("float {} of {} is {}, not {}", i, got.size(), got[i], right[i]);
    }
    return "";
}

}  // namespace helix::engine::proof
