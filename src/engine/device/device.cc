#include "engine/device/device.h"

#include <algorithm>

namespace helix::engine {

base::Status make_room(Device& device, std::unique_ptr<Buffer>& buffer, std::int64_t floats) {
    const std::int64_t size = buffer == nullptr ? 0 : buffer->size();
    if (buffer != nullptr && size >= floats) return base::Ok{};
    buffer = nullptr;
    // By half at least, so that batches that grow row by row do not each ask for memory.
    TRY(buffer, device.make_buffer(std::max(floats, size + size / 2)));
    return base::Ok{};
}

base::Result<std::unique_ptr<Buffer>> filled_buffer(Device& device, std::span<const float> values) {
    TRY(auto buffer, device.make_buffer(std::ssize(values)));
    TRY_VOID(device.write(*buffer, 0, values));
    return buffer;
}

}  // namespace helix::engine
