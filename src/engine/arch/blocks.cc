#include "engine/arch/blocks.h"

#include <fmt/format.h>

namespace helix::engine {

std::string layer_tensor(std::int32_t layer, std::string_view what) {
    return fmt::format("blk.{}.{}", layer, what);
}

base::Result<std::int64_t> tensors_bytes(const WeightLoader& loader, std::int32_t layer,
                                         const std::vector<std::string>& names) {
    std::int64_t sum = 0;
    for (const std::string& name : names) {
        TRY(const std::int64_t bytes, loader.bytes(layer_tensor(layer, name)));
        sum += bytes;
    }
    return sum;
}

void make_room(std::vector<float>& buffer, std::int64_t size) {
    const auto wanted = static_cast<std::size_t>(size);
    if (buffer.size() < wanted) buffer.resize(wanted);
}

void NormedRows::run(const Device& device, const LayerRows& rows, const std::vector<float>& weight,
                     float epsilon) {
    const auto hidden = static_cast<std::int64_t>(weight.size());
    make_room(values_, rows.rows * hidden);
    device.pool.run(rows.rows, [&](std::int64_t row, int) {
        device.kernels.rms_norm(rows.hidden.data() + row * hidden, weight.data(), hidden, epsilon,
                                values_.data() + row * hidden);
    });
    matmul_rows_.set(values_.data(), rows.rows, hidden);
}

}  // namespace helix::engine
