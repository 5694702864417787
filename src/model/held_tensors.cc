#include "model/held_tensors.h"

#include <utility>

namespace helix::model {

base::Result<std::span<const std::byte>> HeldTensors::use(
    std::string_view name, const std::function<base::Result<Bytes>()>& make) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = held_.find(name); found != held_.end()) {
            ++found->second.uses;
            return std::span<const std::byte>(found->second.bytes);
        }
    }
    TRY(Bytes bytes, make());
    const std::lock_guard lock(mutex_);
    // If two made it at the same time, the copy of the first is kept.
    Held& held = held_.try_emplace(std::string(name), Held{std::move(bytes), 0}).first->second;
    ++held.uses;
    return std::span<const std::byte>(held.bytes);
}

void HeldTensors::release(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(name);
    if (found != held_.end() && --found->second.uses == 0) held_.erase(found);
}

}  // namespace helix::model
