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

base::Status NormedRows::run(Device& device, const LayerRows& rows, const Buffer& weight,
                             float epsilon) {
    const std::int64_t hidden = weight.size();
    TRY_VOID(make_room(device, values_, rows.rows * hidden));
    device.rms_norm({rows.hidden, weight, *values_, rows.rows, hidden, epsilon});
    return base::Ok{};
}

}  // namespace helix::engine
